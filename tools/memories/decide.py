"""What a person or an agent changes in memories: keep, edit, merge, withdraw, restore, confirm, promote. Each can be
undone.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import JsonValue

from swarm_memory.schema.base import GLOBAL_PROJECT, Scope, is_teams, new_id
from swarm_memory.schema.errors import InputError, NotFoundError
from swarm_memory.schema.memory import MemoryItem, MemoryLink, MemoryStatus
from swarm_memory.tools.anchors.staleness import anchored
from swarm_memory.tools.guard.gate import gated_edit, suspects
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.memories.edit import changeable, checked_texts
from swarm_memory.tools.ports.journal import DECIDED, TAKEN_BACK, Event
from swarm_memory.tools.ports.upkeep import Decision, Redone
from swarm_memory.tools.retrieve.embed import prepare
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.toolbox import Toolbox

What = Literal["keep", "edit", "merge", "withdraw", "quarantine", "restore", "promote", "confirm"]
DECISION = "dc"
_BY_USER = "by the user"
_MAX_REASON_CHARS = 500

_CHANGEABLE = ("scope", "title", "description", "content", "tags", "domain", "status", "status_reason", "provenance")
_EMBEDDED = ("title", "description", "content", "tags", "domain", "provenance")
"""What is in a memory's text and its indexes."""


class MemoryChange(NamedTuple):
    """The new texts of a memory; None leaves one as it is, an empty domain takes it away."""

    title: str | None = None
    description: str | None = None
    content: str | None = None
    tags: Sequence[str] | None = None
    domain: str | None = None


class Decided(NamedTuple):
    """A decision that was written, or taken back."""

    id: str
    """Empty: nothing was to be changed, and nothing can be taken back."""
    what: What
    items: tuple[MemoryItem, ...]
    """The memories as they are now."""


async def keep(toolbox: Toolbox, memory_id: str, why: str, other_id: str | None = None) -> Decided:
    """Have a memory stay as it is, and not come back to the desk for the same reason; who keeps it vouches for it.

    `why` is the reason why it lay there, `other_id` the memory that it stands against: that one stays too. One in
    quarantine is restored. Raises as `get_memories`.
    """
    items = await changeable(toolbox, [memory_id] if other_id is None else [memory_id, other_id])
    changes = {item.id: _restored(item, _BY_USER) if item.status == "quarantined" else item for item in items}
    about: dict[str, JsonValue] = {"why": why}
    if other_id is not None:
        about["pair"] = [memory_id, other_id]
    return await _decide(toolbox, "keep", items, changes, about)


async def edit(
    toolbox: Toolbox, memory_id: str, change: MemoryChange, reason: str | None = None, *, by_hand: bool = True
) -> Decided:
    """Change what is given, embed again, and keep the former text in the history.

    Secrets in the new text are replaced; what is suspect now is held back or trusted less, as `gated_edit` says. What
    the user said and an agent changed (not `by_hand`) is the agent's note. Raises `InputError` when nothing is given or
    a text is not fit for a memory, `NotFoundError`, and `ModelError` when the embedder fails: then nothing was changed.
    """
    (item,) = await changeable(toolbox, [memory_id])
    edited = _edited(toolbox, item, change, by_hand=by_hand)
    if edited == item:
        return Decided("", "edit", (item,))
    (edited,) = await anchored(toolbox, [edited])
    return await _decide(toolbox, "edit", [item], {item.id: edited}, why=_reason(reason, by_hand=by_hand))


async def merge(toolbox: Toolbox, kept_id: str, other_id: str) -> Decided:
    """Archive one of two memories as a duplicate of the other, which is restored where it was withdrawn.

    Raises `InputError` for one memory twice, and as `get_memories`.
    """
    if kept_id == other_id:
        raise InputError("a memory cannot be merged with itself: name two")
    kept, other = items = await changeable(toolbox, [kept_id, other_id])
    archived = _with(other, status="archived", status_reason=f"duplicate of {kept.id} (by the user)")
    link = MemoryLink(src_id=other.id, dst_id=kept.id, relation="duplicate_of", weight=1.0)
    changes = {kept.id: kept if kept.status == "active" else _restored(kept, _BY_USER), other.id: archived}
    about: dict[str, JsonValue] = {"pair": [kept.id, other.id]}
    return await _decide(toolbox, "merge", items, changes, about, [link])


async def set_memory_status(
    toolbox: Toolbox, ids: Sequence[str], status: MemoryStatus, reason: str | None = None, *, by_hand: bool = True
) -> Decided:
    """Restore (active), quarantine or archive; `items` are those that changed. Raises as `get_memories`.

    What screening finds suspect is restored only `by_hand`, by the user: an agent that read it may be talked into it.
    So the user vouches also for an active one that is trusted less for its wording.
    """
    what: What = "restore" if status == "active" else "quarantine" if status == "quarantined" else "withdraw"
    found = await changeable(toolbox, ids)
    if status == "active" and not by_hand and (held := suspects(found)):
        raise InputError(f"only the user may restore {', '.join(held)}: swarm-memory memories restore {held[0]}")
    why = _reason(reason, by_hand=by_hand)
    wanted = {item.id: _with(item, status=status, status_reason=why) for item in found if item.status != status}
    if status == "active" and by_hand:
        wanted |= {item.id: _restored(item, why) for item in found if item.id in wanted or item.provenance.standing < 0}
    changed = [item for item in found if item.id in wanted]
    return await _decide(toolbox, what, changed, wanted, why=why) if changed else Decided("", what, ())


async def confirm(toolbox: Toolbox, memory_id: str, *, by_hand: bool = True) -> Decided:
    """Make what an agent brought as the user's word the user's own: he typed that he said it, or a prompt has it.

    Raises `InputError` for any other memory, and as `get_memories`.
    """
    (item,) = await changeable(toolbox, [memory_id])
    source = item.provenance
    if source.heard_in is None or source.is_users_word:
        raise InputError(f"{memory_id} is nothing that an agent brought as the user's word")
    users = {"distiller": "user", "repeats_shown": False, "suspect": source.suspect if not by_hand else None}
    own = source.model_copy(update=users | ({"judge": None} if by_hand else {"heard_in": "prompt"}))
    changes = {"provenance": own} | ({"status": "active", "status_reason": _BY_USER} if by_hand else {})
    return await _decide(toolbox, "confirm", [item], {item.id: _with(item, **changes)})


async def promote(toolbox: Toolbox, memory_id: str) -> Decided:
    """Lift an active memory into the user's global scope: every project is shown it. Its history goes with it.

    Raises `InputError` for one that is there already or is not active, and as `get_memories`.
    """
    (item,) = await changeable(toolbox, [memory_id])
    if item.scope.project == GLOBAL_PROJECT:
        raise InputError(f"{memory_id} is of every project already")
    if is_teams(item.scope):
        raise InputError(f"{memory_id} is the team's: it is shared about its project, or proposed for all")
    if item.status != "active":
        raise InputError(f"{memory_id} is {item.status}: restore it first")
    lifted = _with(item, scope=Scope(tenant_id=item.scope.tenant_id))
    return await _decide(toolbox, "promote", [item], {item.id: lifted})


async def demote(toolbox: Toolbox, memory_id: str) -> Decided:
    """Have a memory that was promoted be of its own project again.

    Raises `NotFoundError` for one that was not, and as `undo`.
    """
    for decision_id, events in standing(await toolbox.store.review.decisions(toolbox.scope.readable())).items():
        if events[0].subject_id == memory_id and events[0].data.get("decision") == "promote":
            return await undo(toolbox, decision_id)
    raise NotFoundError(f"{memory_id} was not promoted to the user: nothing was taken back")


async def undo(toolbox: Toolbox, decision_id: str) -> Decided:
    """Take a decision back: its memories and links are again as they were before it.

    What tasks changed since (confidence, uses) stays. Raises `NotFoundError` for a decision that is unknown or was
    taken back, `InputError` where one of its memories was changed or forgotten since: then nothing is taken back.
    """
    events = standing(await toolbox.store.review.decisions(toolbox.scope.readable())).get(decision_id)
    if events is None:
        raise NotFoundError(f"no decision {decision_id[:60]!r} that could be taken back")
    changes: dict[str, Any] = {str(event.subject_id): event.data for event in events}
    what: What = changes[str(events[0].subject_id)]["decision"]
    items = await toolbox.store.get_memories(toolbox.scope.readable(), list(changes))
    later = [item.id for item in items if (after := changes[item.id]["after"]) != _values(item, after)]
    if gone := [*later, *(changes.keys() - {item.id for item in items})]:
        raise InputError(f"{', '.join(gone)} was changed since: this decision cannot be taken back")
    back = [MemoryItem.model_validate({**item.model_dump(), **changes[item.id]["former"]}) for item in items]
    links = [MemoryLink.model_validate(link) for data in changes.values() for link in data.get("links", ())]
    about: dict[str, JsonValue] = {"id": decision_id, "decision": what}
    redone = await _redone(toolbox, items, back, dict.fromkeys(changes, about))
    decision = Decision(TAKEN_BACK, redone, toolbox.clock.now(), f"{what} was taken back", unlinked=tuple(links))
    return await _write(toolbox, decision, Decided(decision_id, what, tuple(back)))


def standing(decisions: Iterable[Event]) -> dict[str, list[Event]]:
    """Return the events of each decision that was not taken back, by its id, oldest first."""
    found: dict[str, list[Event]] = {}
    for event in decisions:
        decision_id = str(event.data.get("id"))
        if event.kind == TAKEN_BACK:
            found.pop(decision_id, None)
        elif "id" in event.data:
            found.setdefault(decision_id, []).append(event)
    return found


async def _decide(
    toolbox: Toolbox,
    what: What,
    items: Sequence[MemoryItem],
    wanted: Mapping[str, MemoryItem],
    about: Mapping[str, JsonValue] | None = None,
    links: Sequence[MemoryLink] = (),
    *,
    why: str = _BY_USER,
) -> Decided:
    decision_id = new_id(DECISION)
    after = [wanted[item.id] for item in items]
    new = await _new_links(toolbox, links)
    data: dict[str, dict[str, JsonValue]] = {}
    for before, item in zip(items, after, strict=True):
        was, now = _values(before, _CHANGEABLE), _values(item, _CHANGEABLE)
        changed = [name for name in was if was[name] != now[name]]
        values = {"former": {name: was[name] for name in changed}, "after": {name: now[name] for name in changed}}
        data[item.id] = {"id": decision_id, "decision": what, "reason": why, **(about or {}), **values}
    if new:
        data[items[0].id]["links"] = [link.model_dump(mode="json") for link in new]
    redone = await _redone(toolbox, items, after, data)
    decision = Decision(DECIDED, redone, toolbox.clock.now(), why, links=tuple(new))
    return await _write(toolbox, decision, Decided(decision_id, what, tuple(after)))


async def _write(toolbox: Toolbox, decision: Decision, done: Decided) -> Decided:
    if not await toolbox.store.review.write_decision(decision, toolbox.embedder.name):
        raise InputError("somebody else changed this memory meanwhile: look at it again")
    return done


async def _new_links(toolbox: Toolbox, links: Sequence[MemoryLink]) -> list[MemoryLink]:
    """Return those links that do not stand yet: taking a decision back takes no older ones away."""
    known = {
        (each.src_id, each.dst_id, each.relation)
        for each in await toolbox.store.memory_links(toolbox.scope.readable(), [link.src_id for link in links])
    }
    return [link for link in links if (link.src_id, link.dst_id, link.relation) not in known]


async def _redone(
    toolbox: Toolbox,
    before: Sequence[MemoryItem],
    after: Sequence[MemoryItem],
    data: Mapping[str, Mapping[str, JsonValue]],
) -> tuple[Redone, ...]:
    """Return the changes, with new indexes for what has other texts or another trust. Raises `ModelError`."""
    pairs = list(zip(before, after, strict=True))
    rewritten = [item for former, item in pairs if _values(former, _EMBEDDED) != _values(item, _EMBEDDED)]
    stored = {each.item.id: each for each in await prepare(toolbox, rewritten)} if rewritten else {}
    return tuple(Redone(former, item, stored.get(item.id), data[item.id]) for former, item in pairs)


def _edited(toolbox: Toolbox, item: MemoryItem, change: MemoryChange, *, by_hand: bool = True) -> MemoryItem:
    """Return a memory as an edit makes it, and `gated_edit` lets it be. Raises `InputError` as `edit`."""
    changes = {name: value for name, value in change._asdict().items() if value is not None}
    if not changes:
        raise InputError("nothing to change: give a title, description, content, tags or domain")
    texts = item.model_dump(include={"title", "description", "content", "tags", "domain"})
    edited = _with(item, **checked_texts({**texts, **changes}, toolbox.settings))
    if edited == item:
        return item
    if not by_hand and item.provenance.is_users_word:
        agents = {"distiller": "agent", "judge": "agent", "heard_in": "nowhere"}
        edited = _with(edited, provenance=edited.provenance.model_copy(update=agents))
    return gated_edit(item, edited)


def _restored(item: MemoryItem, why: str) -> MemoryItem:
    source = item.provenance
    if source.standing < 0:
        item = _with(item, provenance=source.model_copy(update={"suspect": None}))
    return item if item.status == "active" else _with(item, status="active", status_reason=why)


def _reason(reason: str | None, *, by_hand: bool) -> str:
    if reason:
        return clean(redact(reason).text, _MAX_REASON_CHARS)
    return _BY_USER if by_hand else "by an agent"


def _with(item: MemoryItem, **changes: Any) -> MemoryItem:
    return item.model_copy(update=changes)


def _values(item: MemoryItem, names: Iterable[str]) -> dict[str, JsonValue]:
    return item.model_dump(mode="json", include=set(names))
