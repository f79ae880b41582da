"""Which memories become skills, which are proven, and which no longer earn their place in one.

This module plans what the files are to hold; the caller reads and writes them.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from swarm_memory.schema.errors import InputError, NotFoundError
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.sqlite.events import DEMOTED, PROMOTED
from swarm_memory.tools.consolidate.consolidate import WORTH_KEEPING
from swarm_memory.tools.credit.intervals import wilson
from swarm_memory.tools.guard.gate import fails_screening
from swarm_memory.tools.guard.screen import by_rules
from swarm_memory.tools.guard.trust import CREDITED
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.ports.records import BankEvent
from swarm_memory.tools.promote.documents import name_of, skill, source_digest, subjects_of, text_to_screen
from swarm_memory.tools.promote.marks import MarkedSkill
from swarm_memory.tools.text.cleaning import is_memory_id
from swarm_memory.tools.toolbox import Toolbox

MAX_PROMOTED, MAX_PER_SKILL = 200, 12
"""The most memories in all skills together, and in one."""

MIN_OUTCOMES = 3
"""With fewer decided tasks since a memory was promoted, nothing is concluded."""

MOST_OF = 0.5
"""Of the tasks that used a proven memory, more than this share surely succeeded."""

MOST = 10_000
"""At most this many of the newest memories are searched for proven ones."""


class OurSkill(NamedTuple):
    """One of our skills that is in a project."""

    name: str
    marked: MarkedSkill


class Document(NamedTuple):
    """One of our skills as it is to be."""

    name: str
    ids: tuple[str, ...] = ()
    source: str = ""
    body: str | None = None
    """The text without its mark; None: the skill is removed."""


@dataclass(slots=True)
class Promotion:
    """What is to be written, and what is not."""

    documents: list[Document] = field(default_factory=list[Document])
    """The skills that change."""
    added: dict[str, Document] = field(default_factory=dict[str, Document])
    taken_out: dict[str, Document] = field(default_factory=dict[str, Document])
    left: dict[str, str] = field(default_factory=dict[str, str])
    """Why requested memories are not promoted, by id."""
    notices: list[str] = field(default_factory=list[str])


async def plan_promotion(
    toolbox: Toolbox,
    ids: Sequence[str],
    present: Sequence[OurSkill],
    *,
    taken: Collection[str] = (),
    overwrite: bool = False,
) -> Promotion:
    """Return what promoting memories changes; without ids, what writing the existing skills again changes.

    `present` are the skills in the project's files; `taken` are names of skills that are not ours. A skill that
    somebody edited stays as it is, unless `overwrite`; so does one that holds memories that are not in this bank.
    Raises `InputError` for an invalid id or too many memories, and `NotFoundError` for a memory that does not exist.
    """
    done = Promotion()
    mine = [each for each in present if await _is_ours(toolbox, each, overwrite, done)]
    known = {each for one in present for each in one.marked.ids}
    wanted = list(dict.fromkeys(ids))
    if wrong := [each for each in wanted if not is_memory_id(each)]:
        raise InputError(f"{wrong[0][:60]!r} is not a memory id: ids are rm_ followed by 26 characters")
    found = await _items(toolbox, wanted)
    if missing := {*wanted} - {item.id for item in found}:
        raise NotFoundError(f"no memory {', '.join(sorted(missing))[:200]} in this project or the global scope")
    named = [item for item in found if item.id not in known]
    done.left = {item.id: why for item in named if (why := _why_not(item)) is not None}
    standing_ids = [each for one in mine for each in one.marked.ids]
    items = await _items(toolbox, standing_ids) + [item for item in named if item.id not in done.left]
    if len(items) > MAX_PROMOTED:
        raise InputError(f"the skills would hold {len(items)} memories: at most {MAX_PROMOTED} are allowed")
    most = toolbox.settings.promote.max_skills
    groups = subjects_of(items, [each.marked.ids for each in mine], MAX_PER_SKILL)
    for one, group in zip(mine, groups, strict=False):
        _write(one.name, group, one, done)
    new = sorted(groups[len(mine) :], key=lambda group: -max(item.confidence for item in group))
    room, names = max(most - len(present), 0), {*taken, *(each.name for each in present)}
    for group in new[:room]:
        names.add(name := name_of(group, names))
        _write(name, group, None, done)
    why = f"there are {most} skills, as many as promote.max_skills allows"
    done.left |= {item.id: why for group in new[room:] for item in group}
    return done


async def plan_demotion(
    toolbox: Toolbox, ids: Collection[str] | None, present: Sequence[OurSkill], *, overwrite: bool = False
) -> Promotion:
    """Return what taking memories out of skills changes; without `ids` (None), all memories are taken out.

    Skills that were edited or are of another bank stay as `plan_promotion` says, but a whole skill of another bank can
    be removed. Raises `NotFoundError` when one of `ids` is in no skill.
    """
    done = Promotion()
    if missing := set(ids or ()) - {each for one in present for each in one.marked.ids}:
        raise NotFoundError(f"{', '.join(sorted(missing))[:200]} is not in any skill of this project")
    for one in present:
        gone = [each for each in one.marked.ids if ids is None or each in ids]
        rest = [each for each in one.marked.ids if each not in gone]
        if not gone or (rest and not await _is_ours(toolbox, one, overwrite, done)):
            continue
        if _is_edited(one, overwrite, done):
            continue
        planned = len(done.documents)
        if not rest:
            done.documents.append(Document(one.name))
        else:
            _write(one.name, await _items(toolbox, rest), one, done)
        done.taken_out |= {each: document for document in done.documents[planned:] for each in gone}
    return done


async def record(toolbox: Toolbox, done: Promotion, written: Document, path: str) -> None:
    """Record in the history of each memory that it was put into, or taken out of, the document `written`.

    Raises `StorageError`.
    """
    now = toolbox.clock.now()
    for kind, some, data in ((PROMOTED, done.added, {"path": path}), (DEMOTED, done.taken_out, {})):
        for memory_id in (each for each, document in some.items() if document is written):
            await toolbox.store.add_event(toolbox.scope, BankEvent(kind, now, memory_id, data))


async def _is_ours(toolbox: Toolbox, one: OurSkill, overwrite: bool, done: Promotion) -> bool:
    """Whether a skill may be written again; if not, a notice says why."""
    if _is_edited(one, overwrite, done):
        return False
    there = {item.id for item in await _items(toolbox, one.marked.ids)}
    if missing := [each for each in one.marked.ids if each not in there]:
        done.notices.append(
            f"skill {one.name} holds memories that are not in this bank ({', '.join(missing[:5])}): it stays as it is"
        )
    return not missing


def _is_edited(one: OurSkill, overwrite: bool, done: Promotion) -> bool:
    """Whether somebody edited a skill that may not be overwritten; if so, a notice says so."""
    if not one.marked.is_edited or overwrite:
        return False
    why = "was edited by hand since it was written, so it stays as it is; --overwrite replaces it"
    done.notices.append(f"skill {one.name} {why}")
    return True


async def _items(toolbox: Toolbox, ids: Iterable[str]) -> list[MemoryItem]:
    wanted = list(ids)
    return await toolbox.store.get_memories(toolbox.readable, wanted) if wanted else []


def _why_not(item: MemoryItem) -> str | None:
    if item.status != "active":
        return f"it is {item.status}"
    if item.use == "open_problem":
        return "it holds no advice yet: nothing was seen to end its error"
    if not item.provenance.is_own_command and (item.provenance.priority < 0 or fails_screening(item)):
        return "its wording is suspect: check it and, if it is sound, run `swarm-memory memories restore ID`"
    return None


def _write(name: str, items: Sequence[MemoryItem], former: OurSkill | None, done: Promotion) -> None:
    """Put memories into a skill, the surest first; nothing if together their wording is suspect, which is noted."""
    if found := by_rules(text_to_screen(items)):
        done.left |= {item.id: f"the skill that would hold it has suspect wording: {found[0].rule}" for item in items}
        return
    kept = sorted(items, key=lambda item: (-item.provenance.priority, -item.confidence, item.id))
    document = Document(name, tuple(sorted(item.id for item in kept)), source_digest(kept), skill(name, kept))
    before = former.marked if former else None
    if before and (document.ids, document.source, document.body) == (before.ids, before.source, before.body):
        return
    done.documents.append(document)
    done.added |= {each: document for each in document.ids if before is None or each not in before.ids}


async def proven(toolbox: Toolbox) -> list[str]:
    """Return the ids of active memories for which most tasks using them succeeded, at 95 %. Raises `StorageError`."""
    items = await toolbox.store.list_memories((toolbox.scope,), MemoryFilter(limit=MOST))
    histories = await toolbox.store.memory_histories((toolbox.scope,), [item.id for item in items], (CREDITED,))
    uses = {
        memory_id: _labels(each for each in some if each.data.get("method", "none") != "none")
        for memory_id, some in histories.items()
    }
    return [each for each, ends in uses.items() if ends and wilson(ends.count("Success"), len(ends)).low > MOST_OF]


async def not_paying(toolbox: Toolbox, promoted: Collection[str]) -> dict[str, str]:
    """Return why promoted memories are to be demoted, by id; memories that are not in this bank are left out.

    One is withdrawn, has little confidence, or more of its tasks since then failed than not. Raises `StorageError`.
    """
    if not promoted:
        return {}
    readable = toolbox.readable
    items = await toolbox.store.get_memories(readable, sorted(promoted))
    histories = await toolbox.store.memory_histories(readable, [item.id for item in items], (PROMOTED, CREDITED))
    reasons = {item.id: _why(item, histories[item.id]) for item in items}
    return {memory_id: why for memory_id, why in reasons.items() if why is not None}


def _why(item: MemoryItem, history: Sequence[BankEvent]) -> str | None:
    if item.status != "active":
        return f"it is {item.status}{f': {item.status_reason}' if item.status_reason else ''}"
    if item.confidence < WORTH_KEEPING and not item.provenance.is_users_word:
        return f"its confidence has fallen to {item.confidence:.2f}; only {WORTH_KEEPING:.2f} or more is worth keeping"
    since = max((place for place, event in enumerate(history) if event.kind == PROMOTED), default=-1)
    labels = _labels(history[since + 1 :])
    failed, succeeded = labels.count("Failure"), labels.count("Success")
    if failed + succeeded < MIN_OUTCOMES or failed <= succeeded:
        return None
    return f"{failed} of {failed + succeeded} tasks that have had it since it was promoted failed"


def _labels(events: Iterable[BankEvent]) -> list[str]:
    """Return the last label of each task, without those that are Undecided."""
    last = {str(event.data.get("task_id")): str(event.data.get("label")) for event in events}
    return [label for label in last.values() if label != "Undecided"]
