"""What a reading of a trajectory found, in short lines for a model that is to judge: counted facts, no verdict."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from swarm_memory.schema.base import counted
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.check_runs import CheckRun
from swarm_memory.tools.trajectory.reading import Reading

_MAX_CHECKS, _MAX_FILES, _MAX_NAMED, _MAX_CHARS = 6, 8, 4, 200


def facts_of(reading: Reading) -> str:
    """Return lines such as `- check pytest: ran 3 times, passed at the end (s9: "2 passed")`; each names its steps."""
    if not reading.calls:
        return "- no tool was called"
    found = [*_checks(reading), *_files(reading), *_goals(reading), *_errors(reading), *_end(reading)]
    return "\n".join(f"- {line}" for line in found)


def _checks(reading: Reading) -> Iterator[str]:
    runs: dict[str, list[CheckRun]] = defaultdict(list)
    for run in reading.checks:
        runs[run.name].append(run)
    if not runs:
        yield "no test, build or linter was seen to run with a result"
    for of_name in sorted(runs.values(), key=lambda each: -each[-1].call.position)[:_MAX_CHECKS]:
        last = of_name[-1]
        passed = "passed" if last.passed else "failed"
        summary = f": {_quoted(last.result.summary)}" if last.result.summary else ""
        told = [
            f"{last.result.purpose} {_plain(last.name)} ran {counted(len(of_name), 'time')}",
            f"the last run {passed} ({_ids([last.call])}{summary})",
            *_about(last, of_name, reading.calls),
        ]
        yield "; ".join(told)


def _about(last: CheckRun, runs: Sequence[CheckRun], calls: Sequence[Call]) -> Iterator[str]:
    """What one has to know of the last run of a check to say what it proves."""
    own = "what it runs or looks at was written by the agent itself in this record"
    yield own if last.is_own else "there before, as far as is seen"
    if last.named or last.wanted:
        yield "the task asks for it"
    if not last.selection.is_whole:
        yield f"it looks at a part only: {_plain(', '.join(sorted(last.selection.paths | last.selection.filters)))}"
    failed = [run for run in runs[:-1] if not run.passed]
    if failed:
        yield f"it had failed before ({_ids([run.call for run in failed])})"
    if last.passed and any(not last.repairs(run) for run in failed):
        yield "the last run does not look at all that had failed"
    if last.changed_at >= 0:
        yield "the agent changed a test that it looks at"
    if changes := sum(call.writes and not call.failed for call in calls if call.position > last.call.position):
        yield f"{counted(changes, 'change')} made after it"


def _files(reading: Reading) -> Iterator[str]:
    written = reading.files.written
    if not written:
        yield "no file was seen to be written"
        return
    shown = ", ".join(_plain(file.path) for file in written[:_MAX_FILES])
    yield f"{counted(len(written), 'file')} written: {shown}{' …' if len(written) > _MAX_FILES else ''}"


def _goals(reading: Reading) -> Iterator[str]:
    for calls, what in ((reading.goals.reached, "went through"), (reading.goals.refused, "failed")):
        if calls:
            names = ", ".join(dict.fromkeys(_plain(call.name) for call in calls))
            own = "; it may say no more than a test that the agent wrote" if all(map(reading.is_own, calls)) else ""
            yield f"what the task names {what} at the end: {names} ({_ids(calls)}){own}"


def _errors(reading: Reading) -> Iterator[str]:
    faults = [error for error in reading.errors if not error.asked_for]
    if not faults:
        yield "no call failed"
        return
    last = max(faults, key=lambda error: error.calls[-1].position)
    ended = f"got past at {_ids([last.ended_by])}" if last.ended_by else "nothing was seen to get past it"
    call = last.calls[-1]
    yield f"the last call that failed: {_plain(call.name)} ({_ids([call])}: {_quoted(call.error)}); {ended}"
    still_open = [error for error in faults if error.is_open]
    yield f"of {counted(len(faults), 'error')} {len(still_open)} stayed open" + (
        f" ({_ids([error.calls[-1] for error in still_open])})" if still_open else ""
    )


def _end(reading: Reading) -> Iterator[str]:
    if reading.said:
        last = reading.said[-1]
        about = f", which reads like {last.about}" if last.about else ""
        yield f"the user said last ({last.step.id}){about}: {_quoted(last.step.text)}"
    else:
        yield "the user said nothing after the task"
    if reading.calls[-1].observation is None:
        yield f"the last call has no result ({_ids(reading.calls[-1:])})"
    if reading.last_words is None and not reading.ends_itself:
        yield "the record ends without a word of the agent"


def _ids(calls: Sequence[Call]) -> str:
    return ", ".join(step for call in calls[-_MAX_NAMED:] for step in call.ids)


def _quoted(text: str) -> str:
    return f'"{_plain(text)}"'


def _plain(text: str) -> str:
    return one_line(clean(text), _MAX_CHARS)
