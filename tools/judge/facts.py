"""What a reading of a trajectory found, in short lines for a model that is to judge: counted facts, no verdict."""

from collections.abc import Iterator, Sequence

from swarm_memory.schema.base import counted
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.reading import Reading

_MAX_CHECKS, _MAX_NAMED, _MAX_CHARS = 6, 4, 200


def facts_of(reading: Reading) -> str:
    """Return lines such as `- test pytest ran 3 times; the last run passed (s9: "2 passed")`; each names its steps."""
    found = (*_checks(reading), *_ends(reading)) if reading.calls else ("no tool was called",)
    return "\n".join(f"- {line}" for line in found)


def _checks(reading: Reading) -> Iterator[str]:
    """The last run of each check, with what one has to know of it to say what it proves."""
    if not reading.checks:
        yield "no test, build or linter was seen to run with a result"
    for last in list({run.name: run for run in reading.checks}.values())[-_MAX_CHECKS:]:
        runs = [run for run in reading.checks if run.name == last.name]
        failed = [run.call for run in runs[:-1] if not run.passed]
        changes = sum(call.writes and not call.failed for call in reading.calls if call.position > last.call.position)
        part = _plain(", ".join(sorted(last.selection.paths | last.selection.filters)))
        summary = f': "{_plain(last.result.summary)}"' if last.result.summary else ""
        said = {
            f"{last.result.purpose} {_plain(last.name)} ran {counted(len(runs), 'time')}": True,
            f"the last run {'passed' if last.passed else 'failed'} ({_ids([last.call])}{summary})": True,
            "what it runs or looks at was written by the agent itself in this record": last.is_own,
            "the task asks for it": last.named or last.wanted,
            f"it looks at a part only: {part}": not last.selection.is_whole,
            f"it had failed before ({_ids(failed)})": failed,
            "the agent changed a test that it looks at": last.changed_at >= 0,
            f"{counted(changes, 'change')} made after it": changes,
        }
        yield "; ".join(fact for fact, holds in said.items() if holds)


def _ends(reading: Reading) -> Iterator[str]:
    """What came of what the task names, what failed last, and what the user said last."""
    for calls, what in ((reading.goals.reached, "went through"), (reading.goals.refused, "failed")):
        if calls:
            names = ", ".join(dict.fromkeys(_plain(call.name) for call in calls))
            own = "; it may say no more than a test that the agent wrote" if all(map(reading.is_own, calls)) else ""
            yield f"what the task names {what} at the end: {names} ({_ids(calls)}){own}"
    if faults := reading.errors:
        last = max(faults, key=lambda error: error.calls[-1].position)
        call = last.calls[-1]
        ended = f"got past at {_ids([last.repair.success])}" if last.repair else "not seen to be got past"
        yield f'the last call that failed: {_plain(call.name)} ({_ids([call])}: "{_plain(call.error)}"); {ended}'
    for said in reading.said[-1:]:
        yield f'the user said last ({said.step.id}): "{_plain(said.step.text)}"'


def _ids(calls: Sequence[Call]) -> str:
    return ", ".join(step for call in calls[-_MAX_NAMED:] for step in call.ids)


def _plain(text: str) -> str:
    return one_line(clean(text), _MAX_CHARS)
