"""Which errors of a trajectory were seen to end by something that was done, and which memories say what that was."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.tools.distill.changes import telling_changes
from swarm_memory.tools.distill.lessons import HOST_TOOLS, PROVEN_REPAIR
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.errors import PASSES_WITH_TIME, Repair, same_error, spoken, telling_words
from swarm_memory.tools.trajectory.files import written_by
from swarm_memory.tools.trajectory.reading import Reading, read

_OWN_FAULTS = frozenset({"assertion", "syntax", "types"})
"""Kinds of errors in what the agent had just written: what ended one of them is of no use for the next."""

_MAY_PASS = PASSES_WITH_TIME | {"network"}
"""Kinds that may pass when the same is done once more."""

_CONFIGURATION = (
    ".toml", ".yaml", ".yml", ".json", ".ini", ".cfg", ".conf", ".env", ".lock", ".properties", ".xml", ".gradle",
    "Makefile", "Dockerfile", ".mod", "requirements.txt",
)  # fmt: skip

_SPARE_STEPS = 4
"""A memory that rests on so many more steps than a way out has tells something wider."""


class WayOut(NamedTuple):
    """An error that ended, and the calls that say so."""

    signature: str
    """The digest of the error's."""
    calls: tuple[Call, ...]
    """The one that failed first; then what was done, and the one that went through."""


def ways_out_of(given: Trajectory | Reading, told: Iterable[tuple[str, MemoryItem]]) -> tuple[tuple[str, str], ...]:
    """Return pairs of the digest of an error's signature and the id of a memory that tells what ended it.

    `told` are ids of memories in the bank, each with the item that was drawn from the trajectory.
    """
    items = [(memory_id, item) for memory_id, item in told if item.provenance.evidence]
    if not items:
        return ()
    ways = list(ways_out(read(given)))
    pairs = ((way.signature, memory_id) for way in ways for memory_id, item in items if _tells(item, way))
    return tuple(dict.fromkeys(pairs))


def ways_out(reading: Reading) -> Iterator[WayOut]:
    """Yield each error of a trajectory that something was seen to end.

    Not one that passed when the same call was made once more, anywhere in the trajectory; nor one in the agent's own
    work; nor one of a tool where nothing can be told of the arguments that were taken but that they were others.
    """
    passing = {each.failed.signature for each in reading.repairs if each.same_call and not each.deeds}
    for repair in reading.repairs:
        signature = repair.failed.signature
        if signature is None or signature in passing or not _is_cure(repair):
            continue
        if repair.same_call or repair.failed.command is not None or _can_be_told(repair, reading):
            yield WayOut(signature.digest, (repair.failed, *repair.deeds[-3:], repair.success))


def _is_cure(repair: Repair) -> bool:
    """Whether what was done, or called otherwise, ended the error, and not the mere repetition or a change of mind."""
    failed, success = repair.failed, repair.success
    if repair.failure.kind in _OWN_FAULTS or (failed.command is None and failed.tool in HOST_TOOLS):
        return False
    if not (success.failed or success.went_through or (success.check and success.check.passed)):
        return False
    if repair.failure.kind in _MAY_PASS and not _was_repeated_in_vain(repair):
        return False
    if not repair.same_call:
        return not _runs_own_code(failed)
    if all(map(_is_own_work, repair.deeds)):
        return False
    return repair.failure.kind != "error" or _was_repeated_in_vain(repair) or _names_it(repair)


def _can_be_told(repair: Repair, reading: Reading) -> bool:
    changes = telling_changes(repair, reading.calls, reading.trajectory.task, reading.particulars)
    return any(change.is_code for change in changes)


def _was_repeated_in_vain(repair: Repair) -> bool:
    """Whether the same call failed in the same way again before anything was done."""
    return any(same_error(repair.failed, each) and each.key == repair.failed.key for each in repair.attempts)


def _names_it(repair: Repair) -> bool:
    """Whether what was done speaks of what the error speaks of."""
    failed = repair.failed
    named = telling_words(failed.error) - telling_words(spoken(failed))
    return any(named & telling_words(spoken(deed)) for deed in repair.deeds)


def _runs_own_code(call: Call) -> bool:
    """Whether a call brings the program that it runs along: the next one brings another."""
    words = [word for part in call.command.parts for word in part.words] if call.command else []
    return call.command is not None and ("<<" in call.command.text or "-c" in words or "-e" in words)


def _is_own_work(call: Call) -> bool:
    """Whether a call wrote into files that configure nothing."""
    written = written_by(call)
    return bool(written) and not any(path.endswith(_CONFIGURATION) for path in written)


def _tells(item: MemoryItem, way: WayOut) -> bool:
    """Whether a memory rests on all calls of a way out, and on little else; one of extraction must be its lesson."""
    evidence = item.provenance.evidence
    if item.provenance.distiller == "extractive":
        return PROVEN_REPAIR in item.tags and evidence[0] == way.calls[0].step.id
    rests = all(not set(evidence).isdisjoint(call.ids) for call in way.calls)
    return rests and len(evidence) <= 2 * len(way.calls) + _SPARE_STEPS
