"""What a reading of a trajectory found, in short lines for a model that is to judge: counted facts, no verdict."""

from collections.abc import Iterator, Sequence

from swarm_memory.schema.base import counted
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.check_runs import CheckRun
from swarm_memory.tools.trajectory.reading import Reading

_MAX_CHECKS, _MAX_NAMED, _MAX_CHARS = 6, 4, 200


def facts_of(reading: Reading) -> str:
    """Return lines such as `- test pytest ran 3 times; the last run passed (s9: "2 passed")`; each names its steps."""
    found = (*_checks(reading), *_ends(reading)) if reading.calls else ("no tool was called",)
    return "\n".join(f"- {line}" for line in found)


def _checks(reading: Reading) -> Iterator[str]:
    if not reading.checks:
        yield "no test, build or linter was seen to run with a result"
    for last in list({run.name: run for run in reading.checks}.values())[-_MAX_CHECKS:]:
        before = [run for run in reading.checks if run.name == last.name and run is not last]
        summary = f': "{_plain(last.result.summary)}"' if last.result.summary else ""
        told = [
            f"{last.result.purpose} {_plain(last.name)} ran {counted(len(before) + 1, 'time')}",
            f"the last run {'passed' if last.passed else 'failed'} ({_ids([last.call])}{summary})",
            *_about(last, before, reading.calls),
        ]
        yield "; ".join(told)


def _about(last: CheckRun, before: Sequence[CheckRun], calls: Sequence[Call]) -> Iterator[str]:
    """What one has to know of the last run of a check to say what it proves."""
    failed = [run for run in before if not run.passed]
    changes = sum(call.writes and not call.failed for call in calls if call.position > last.call.position)
    part = _plain(", ".join(sorted(last.selection.paths | last.selection.filters)))
    said = {
        "what it runs or looks at was written by the agent itself in this record": last.is_own,
        "the task asks for it": last.named or last.wanted,
        f"it looks at a part only: {part}": not last.selection.is_whole,
        f"it had failed before ({_ids([run.call for run in failed])})": failed,
        "the last run does not look at all that had failed": last.passed and not all(map(last.repairs, failed)),
        "the agent changed a test that it looks at": last.changed_at >= 0,
        f"{counted(changes, 'change')} made after it": changes,
    }
    return (fact for fact, holds in said.items() if holds)


def _ends(reading: Reading) -> Iterator[str]:
    """What came of what the task names, what failed last, and what the user said last."""
    for calls, what in ((reading.goals.reached, "went through"), (reading.goals.refused, "failed")):
        if calls:
            names = ", ".join(dict.fromkeys(_plain(call.name) for call in calls))
            own = "; it may say no more than a test that the agent wrote" if all(map(reading.is_own, calls)) else ""
            yield f"what the task names {what} at the end: {names} ({_ids(calls)}){own}"
    faults = [error for error in reading.errors if not error.asked_for]
    if faults:
        last = max(faults, key=lambda error: error.calls[-1].position)
        call = last.calls[-1]
        ended = f"got past at {_ids([last.ended_by])}" if last.ended_by else "not seen to be got past"
        yield f'the last call that failed: {_plain(call.name)} ({_ids([call])}: "{_plain(call.error)}"); {ended}'
    if reading.said:
        spoken = reading.said[-1]
        yield f'the user said last ({spoken.step.id}): "{_plain(spoken.step.text)}"'


def _ids(calls: Sequence[Call]) -> str:
    return ", ".join(step for call in calls[-_MAX_NAMED:] for step in call.ids)


def _plain(text: str) -> str:
    return one_line(clean(text), _MAX_CHARS)
