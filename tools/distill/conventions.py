"""Whether work kept to a way past an error that it did not meet: so a project's conventions are seen."""

import re
from collections.abc import Iterable, Iterator

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.distill.repairs import MAX_TOLD
from swarm_memory.tools.distill.ways_out import stand_in_order
from swarm_memory.tools.ports.trajectories import TriedWay
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.failures import error_key
from swarm_memory.tools.trajectory.phrasing import show_call
from swarm_memory.tools.trajectory.reading import Reading
from swarm_memory.tools.trajectory.shell import CHECKS, Command, parse_command

_OF = re.compile(r'1\. When `(?P<failed>[^`]+)` ends with "(?P<symptom>[^"]+)"')
_INSTEAD = re.compile(r"(?m)^\d+\. Use `(?P<other>[^`]+)`: ")


def kept_to(reading: Reading, ways: Iterable[MemoryItem]) -> Iterator[TriedWay]:
    """Yield whether a trajectory kept to ways past errors that it did not meet; without a signature.

    It did where the program first went through after what the way says was done, or was always run as it says; it did
    not where the program went through otherwise. Of what the task was told of beforehand only the latter counts.
    """
    went = [(call, show_call(call, reading.names, MAX_TOLD)) for call in reading.calls if _went_through(call)]
    met = {(call.name, error_key(call.error)) for call in reading.calls if call.failed}
    for item in ways:
        found = _OF.match(item.content)
        failed = parse_command(found["failed"]) if found else None
        if found is None or failed is None or (failed.name, error_key(found["symptom"])) in met:
            continue
        is_kept = _is_kept(failed, item, went)
        if is_kept is False or (is_kept and item.id not in reading.trajectory.injected_memory_ids):
            yield TriedWay("", item.id, is_kept)


def in_vain(reading: Reading, ways: Iterable[MemoryItem]) -> Iterator[str]:
    """Yield the ids of ways that were done before their error came, and after which the program never went through.

    Not of a check, which may have failed for the work itself.
    """
    shown = [(call, show_call(call, reading.names, MAX_TOLD)) for call in reading.calls if call.command]
    for item in ways:
        found = _OF.match(item.content)
        failed = parse_command(found["failed"]) if found else None
        if failed is None or failed.purpose in CHECKS or not item.deeds:
            continue
        runs = [call for call, text in shown if text not in item.deeds and _is_of(failed, call)]
        if not runs or not runs[-1].failed:
            continue
        since = max((call.end for call in runs if not call.failed), default=-1)
        done = [text for call, text in shown if since < call.position < runs[-1].position]
        if stand_in_order(item.deeds, done):
            yield item.id


def _went_through(call: Call) -> bool:
    return call.command is not None and (call.went_through or bool(call.check and call.check.passed))


def _is_kept(failed: Command, item: MemoryItem, went: list[tuple[Call, str]]) -> bool | None:
    """None: what had failed was not run, or nothing says what would be kept to."""
    deeds, instead = item.deeds, _INSTEAD.search(item.content)
    runs = [at for at, (call, shown) in enumerate(went) if shown not in deeds and _is_of(failed, call)]
    if deeds:
        return stand_in_order(deeds, [shown for _, shown in went[: runs[0]]]) if runs else None
    form = _form(parse_command(instead["other"])) if instead else ""
    if not form or form == _form(failed):
        return None
    forms = {at: _form(parse_command(shown.strip("`"))) for at, (_, shown) in enumerate(went)}
    as_told = [forms[at] == form for at in forms if at in runs or forms[at] == form]
    return all(as_told) if as_told else None


def _is_of(failed: Command, call: Call) -> bool:
    """Whether a call runs what had failed: the same check, whatever it looks at, or the same subcommand."""
    one, other = failed.main, call.command.main if call.command else None
    if one is None or other is None or failed.name != call.name:
        return False
    return one.purpose in CHECKS or one.subcommand == other.subcommand


def _form(command: Command) -> str:
    """A command line up to its program: with what is set for it, and what runs it."""
    program = command.main.program if command.main else ""
    found = re.search(rf"(?<!\S)\S*{re.escape(program)}(?!\S)", command.text) if program else None
    return command.text[: found.end()] if found else ""
