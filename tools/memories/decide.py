"""What waits for a person's decision, with the reason; and what a person or an agent then does to memories: keep,
edit, merge, withdraw, restore, confirm, promote. Each decision can be undone.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from pydantic import JsonValue

from swarm_memory.schema.base import GLOBAL_PROJECT, Scope, counted, is_teams, new_id
from swarm_memory.schema.errors import InputError, NotFoundError
from swarm_memory.schema.memory import FIX, MemoryItem, MemoryLink, MemoryStatus
from swarm_memory.tools.anchors.staleness import set_anchors
from swarm_memory.tools.guard.gate import WORDS, admit_memory
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.guard.trust import unverified
from swarm_memory.tools.guard.wording import NOTHING_READ, AgentContext, moment_of
from swarm_memory.tools.memories.manage import changeable
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.ports.records import DECIDED, TAKEN_BACK, BankEvent, ReviewChange
from swarm_memory.tools.retrieve.embed import prepare
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.text.intent import title_of
from swarm_memory.tools.toolbox import Toolbox

What = Literal["keep", "edit", "merge", "withdraw", "quarantine", "restore", "promote", "confirm"]
DECISION = "dc"
_BY_USER = "by the user"
_MAX_REASON_CHARS = 500

_CHANGEABLE = ("scope", "title", "description", "content", "tags", "domain", "status", "status_reason", "provenance")
_EMBEDDED = ("title", "description", "content", "tags", "domain", "provenance")
"""The fields that a memory's embedding and indexes are made from."""

_Change: TypeAlias = tuple[MemoryItem, MemoryItem, Mapping[str, JsonValue]]
"""A memory as it was read, as it is to be written, and the data of its event."""


class MemoryChange(NamedTuple):
    """The new texts of a memory; None leaves a text as it is, an empty domain removes the domain."""

    title: str | None = None
    description: str | None = None
    content: str | None = None
    tags: Sequence[str] | None = None
    domain: str | None = None


class Decision(NamedTuple):
    """A decision that was written, or taken back."""

    id: str
    """Empty: there was nothing to change, and nothing can be taken back."""
    what: What
    items: tuple[MemoryItem, ...]
    """The memories as they are now."""
    at: datetime | None = None
    """When an earlier decision was written."""


async def keep(toolbox: Toolbox, memory_id: str, why: str, other_id: str | None = None) -> Decision:
    """Keep a memory as it is, so that it does not come up again for the same reason; whoever keeps it vouches for it.

    `why` is the reason for which it was to be reviewed, `other_id` the memory that it contradicts, which is kept too. A
    memory in quarantine, or a candidate, is restored. Raises as `changeable`.
    """
    items = await changeable(toolbox, [memory_id] if other_id is None else [memory_id, other_id])
    pairs = [(item, item if item.status == "archived" else _restored(item, _BY_USER)) for item in items]
    about: dict[str, JsonValue] = {"why": why}
    if other_id is not None:
        about["pair"] = [memory_id, other_id]
    return await _decide(toolbox, "keep", pairs, about)


async def edit(
    toolbox: Toolbox,
    memory_id: str,
    change: MemoryChange,
    reason: str | None = None,
    *,
    by_hand: bool = True,
    had_read: AgentContext = NOTHING_READ,
    handles: tuple[str, ...] | None = None,
) -> Decision:
    """Change what is given, embed again, and keep the former text in the history. A title made of the content follows.

    What is new passes `admit_memory`; `had_read` is what an agent had read, `handles` its own. After an agent's
    edit (not `by_hand`) nobody vouches for the memory any more; if it was the user's word, it becomes the agent's note.
    Raises `InputError` if nothing is given or a text is not fit for a memory, `NotFoundError`, and `ModelError` if the
    embedder fails: then nothing was changed.
    """
    (item,) = await changeable(toolbox, [memory_id])
    changes = {name: value for name, value in change._asdict().items() if value is not None}
    if not changes:
        raise InputError("nothing to change: give a title, description, content, tags or domain")
    if change.content is not None and change.title is None and item.title == title_of(item.content):
        changes["title"] = title_of(redact(change.content).text)
    agents = {"judge": "agent"} | (
        {"distiller": "agent", "heard_in": "nowhere"} if item.provenance.is_users_word else {}
    )
    own = {"handles": item.provenance.handles if handles is None else handles}
    source = item.provenance.model_copy(update=own | ({} if by_hand else agents))
    edited = admit_memory({**dict(item), **changes}, source, toolbox.settings, had_read, item)
    if edited.model_dump(include=WORDS) == item.model_dump(include=WORDS) and source.handles == item.provenance.handles:
        return Decision("", "edit", (item,))
    (edited,) = await set_anchors(toolbox, [edited])
    return await _decide(toolbox, "edit", [(item, edited)], _by(by_hand), why=_reason(reason, by_hand=by_hand))


async def merge(toolbox: Toolbox, kept_id: str, other_id: str, *, takes_words: bool = False) -> Decision:
    """Archive one of two memories as a duplicate of the other, which is restored if it is not active.

    If it `takes_words`, it first gets the words and origin of the other, a proposal that the user restored.
    Raises `InputError` if both are the same memory, and as `changeable`.
    """
    if kept_id == other_id:
        raise InputError("a memory cannot be merged with itself: name two different ones")
    kept, other = await changeable(toolbox, [kept_id, other_id])
    archived = _with(other, status="archived", status_reason=f"duplicate of {kept.id} (by the user)")
    link = MemoryLink(src_id=other.id, dst_id=kept.id, relation="duplicate_of", weight=1.0)
    names = ("title", "description", "content", "tags", "provenance") if takes_words else ()
    new = _with(kept, **{name: getattr(other, name) for name in names})
    pairs = [(kept, new if new.status == "active" else _restored(new, _BY_USER)), (other, archived)]
    return await _decide(toolbox, "restore" if takes_words else "merge", pairs, {"pair": [kept.id, other.id]}, link)


async def set_memory_status(
    toolbox: Toolbox, ids: Sequence[str], status: MemoryStatus, reason: str | None = None, *, by_hand: bool = True
) -> Decision:
    """Restore (active), quarantine or archive memories; `items` are those that changed. Raises as `changeable`.

    An agent may restore only what an agent withdrew or quarantined while it was active; only the user releases the
    rest, `by_hand`. By restoring, the user also vouches for an active memory that is trusted less for its wording.
    """
    what: What = "restore" if status == "active" else "quarantine" if status == "quarantined" else "withdraw"
    found = await changeable(toolbox, ids)
    if status == "active" and not by_hand and (held := await _users_to_restore(toolbox, found)):
        raise InputError(f"only the user may restore {', '.join(held)}: swarm-memory memories restore {held[0]}")
    why = _reason(reason, by_hand=by_hand)
    pairs: list[tuple[MemoryItem, MemoryItem]] = []
    for item in found:
        if status == "active" and by_hand and (item.status != status or item.provenance.priority < 0):
            pairs.append((item, _restored(item, why)))
        elif item.status != status:
            pairs.append((item, _with(item, status=status, status_reason=why)))
    return await _decide(toolbox, what, pairs, _by(by_hand), why=why) if pairs else Decision("", what, ())


async def _users_to_restore(toolbox: Toolbox, items: Sequence[MemoryItem]) -> list[str]:
    """Return the ids of those that no agent withdrew or quarantined while they were active, or that changed since."""
    ids = [item.id for item in items if item.status != "active"]
    decided = await toolbox.store.memory_histories(toolbox.scope.readable(), ids, (DECIDED, TAKEN_BACK))
    held: list[str] = []
    for item in items:
        last: Any = decided[item.id][-1].data if decided.get(item.id) else {}
        is_agents = last.get("by") == "agent" and last["decision"] in ("withdraw", "quarantine")
        if item.id in ids and not (
            is_agents and last["former"]["status"] == "active" and _values(item, last["after"]) == last["after"]
        ):
            held.append(item.id)
    return held


def _by(by_hand: bool) -> dict[str, JsonValue]:
    return {} if by_hand else {"by": "agent"}


async def vouch(toolbox: Toolbox, memory_id: str, *, by_hand: bool = True) -> Decision:
    """Make an agent's note the user's own word: the user's command says so, or the note's words are in a prompt.

    Raises `InputError` for any other memory, and as `changeable`.
    """
    (item,) = await changeable(toolbox, [memory_id])
    source = item.provenance
    if source.distiller != "agent":
        raise InputError(f"{memory_id} is not an agent's note, so it cannot become the user's word")
    users = {"distiller": "user", "repeats_shown": False, "suspect": source.suspect if not by_hand else None}
    own = source.model_copy(update=users | ({"judge": None} if by_hand else {"heard_in": "prompt"}))
    changes: dict[str, Any] = {"status": "active", "status_reason": _BY_USER}
    if not by_hand:  # the prompt has the content; what else the agent wrote is not the user's
        changes = {"title": title_of(item.content), "description": moment_of(item.description)}
    changes["provenance"] = own
    return await _decide(toolbox, "confirm", [(item, _with(item, **changes))])


async def make_global(toolbox: Toolbox, memory_id: str) -> Decision:
    """Move an active memory into the user's global scope, so that every project is shown it; its history goes along.

    Raises `InputError` for a team's, for one that is there already or is not active, and as `changeable`.
    """
    (item,) = await changeable(toolbox, [memory_id])
    if item.scope.project == GLOBAL_PROJECT:
        raise InputError(f"{memory_id} already belongs to every project")
    if is_teams(item.scope):
        raise InputError(f"{memory_id} is the team's: it is shared for its project, or proposed for all projects")
    if item.status != "active":
        raise InputError(f"{memory_id} is {item.status}: restore it first")
    lifted = _with(item, scope=Scope(tenant_id=item.scope.tenant_id))
    return await _decide(toolbox, "promote", [(item, lifted)])


async def undo(toolbox: Toolbox, decision_id: str) -> Decision:
    """Take a decision back, restoring its memories and links to what they were before it.

    What tasks changed since (confidence, uses) stays. Raises `NotFoundError` for a decision that is unknown or was
    taken back, `InputError` if one of its memories was changed or forgotten since: then nothing is taken back.
    """
    events = in_force(await toolbox.store.review.decisions(toolbox.scope.readable())).get(decision_id)
    if events is None:
        raise NotFoundError(f"no decision {decision_id[:60]!r} that can be taken back")
    changes: dict[str, Any] = {str(event.subject_id): event.data for event in events}
    what: What = changes[str(events[0].subject_id)]["decision"]
    items = await toolbox.store.get_memories(toolbox.scope.readable(), list(changes))
    later = [item.id for item in items if (after := changes[item.id]["after"]) != _values(item, after)]
    if gone := [*later, *(changes.keys() - {item.id for item in items})]:
        raise InputError(f"{', '.join(gone)} changed since then: this decision cannot be taken back")
    back = [(item, MemoryItem.model_validate({**item.model_dump(), **changes[item.id]["former"]})) for item in items]
    links = [MemoryLink.model_validate(link) for data in changes.values() for link in data.get("links", ())]
    about: dict[str, JsonValue] = {"id": decision_id, "decision": what}
    return await _write(toolbox, TAKEN_BACK, f"{what} was taken back", [(*pair, about) for pair in back], (), links)


def in_force(decisions: Iterable[BankEvent]) -> dict[str, list[BankEvent]]:
    """Return the events of each decision that was not taken back, by its id, oldest first."""
    found: dict[str, list[BankEvent]] = {}
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
    pairs: Sequence[tuple[MemoryItem, MemoryItem]],
    about: Mapping[str, JsonValue] | None = None,
    link: MemoryLink | None = None,
    *,
    why: str = _BY_USER,
) -> Decision:
    """Write memories as they are to be, each with its former values, so that the decision can be taken back."""
    decision: dict[str, JsonValue] = {"id": new_id(DECISION), "decision": what, "reason": why, **(about or {})}
    new: list[MemoryLink] = []
    if link is not None:  # if the link exists already, taking the decision back removes none
        known = await toolbox.store.memory_links(toolbox.readable, [link.src_id])
        ends = {(each.src_id, each.dst_id, each.relation) for each in known}
        new = [] if (link.src_id, link.dst_id, link.relation) in ends else [link]
    changes: list[_Change] = []
    for before, item in pairs:
        was, now = _values(before, _CHANGEABLE), _values(item, _CHANGEABLE)
        names = [name for name in was if was[name] != now[name]]
        values = {"former": {name: was[name] for name in names}, "after": {name: now[name] for name in names}}
        made: dict[str, JsonValue] = {"links": [each.model_dump(mode="json") for each in new]} if new else {}
        changes.append((before, item, {**decision, **values, **({} if changes else made)}))
    return await _write(toolbox, DECIDED, why, changes, new)


async def _write(
    toolbox: Toolbox,
    kind: str,
    why: str,
    changes: Sequence[_Change],
    links: Sequence[MemoryLink],
    unlinked: Sequence[MemoryLink] = (),
) -> Decision:
    """Write changes with their events, and new indexes for memories whose texts or trust changed."""
    rewritten = [item for before, item, _ in changes if _values(before, _EMBEDDED) != _values(item, _EMBEDDED)]
    stored = {each.item.id: each for each in await prepare(toolbox, rewritten)}
    at = toolbox.clock.now()
    redone = [
        ReviewChange(before, item, stored.get(item.id), why, BankEvent(kind, at, item.id, data))
        for before, item, data in changes
    ]
    if not await toolbox.store.review.write_decision(redone, toolbox.embedder.name, links, unlinked):
        raise InputError("somebody else has changed this memory in the meantime: look at it again")
    about: Any = changes[0][2]
    return Decision(about["id"], about["decision"], tuple(item for _, item, _ in changes))


def _restored(item: MemoryItem, why: str) -> MemoryItem:
    source = item.provenance
    if source.priority < 0:
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


ReviewKind = Literal["quarantined", "contradicting", "unverified", "failing"]
"""contradicting: pairs of memories. failing: the user's own words with which tasks fail."""

KINDS: tuple[ReviewKind, ...] = get_args(ReviewKind)

MOST_SHOWN_TO_AGENTS = 500
"""Unverified memories are searched for among this many of the most shown ones: those matter most."""

MOST_WAITING = 1_000
"""At most this many of a kind are counted and shown: a person decides no more in a day."""

LATEST = 20
"""How many of the latest decisions can be taken back at a click."""


class Card(NamedTuple):
    """One thing to decide."""

    kind: ReviewKind
    item: MemoryItem
    reason: str
    """Why it waits for review, with its figures."""
    other: MemoryItem | None = None
    """The memory that it contradicts."""


async def to_review(
    toolbox: Toolbox, wanted: ReviewKind | None = None, *, limit: int = 20, offset: int = 0
) -> tuple[Counter[ReviewKind], ReviewKind, list[Card]]:
    """Return how many wait of each kind, and those of one kind, by default the first of which any wait.

    The newest come first, but of unverified ones the most shown. Raises `StorageError`.
    """
    shown = await toolbox.store.review.most_shown(toolbox.scope.readable(), MOST_SHOWN_TO_AGENTS)
    doubtful = await unverified(toolbox, shown)
    doubted = (await toolbox.store.trials(toolbox.scope)).doubted  # keeping one restarts its count
    said = await _items(toolbox, list(doubted))
    waiting = [
        *await _quarantined(toolbox),
        *await _contradicting(toolbox),
        *(Card("unverified", item, _why_unverified(item)) for item in shown if item.id in doubtful),
        *(Card("failing", item, doubted[each]) for each, item in said.items() if item.status == "active"),
    ]
    kind: ReviewKind = wanted or (waiting[0].kind if waiting else KINDS[0])
    cards = [card for card in waiting if card.kind == kind]
    return Counter(card.kind for card in waiting), kind, cards[offset : offset + limit]


async def latest_decisions(toolbox: Toolbox) -> list[Decision]:
    """Return the newest decisions that can be taken back, newest first. Raises `StorageError`."""
    decided = in_force(await toolbox.store.review.decisions(toolbox.scope.readable()))
    newest = list(reversed(decided.items()))[:LATEST]
    items = await _items(toolbox, [str(event.subject_id) for _, events in newest for event in events])
    latest: list[Decision] = []
    for decision_id, events in newest:
        first: Any = events[0].data
        of_it = tuple(items[each] for event in events if (each := str(event.subject_id)) in items)
        latest.append(Decision(decision_id, first["decision"], of_it, events[0].at))
    return latest


async def _items(toolbox: Toolbox, ids: Sequence[str]) -> dict[str, MemoryItem]:
    found = await toolbox.store.get_memories(toolbox.scope.readable(), list(dict.fromkeys(ids)))
    return {item.id: item for item in found}


async def _quarantined(toolbox: Toolbox) -> list[Card]:
    """Return what is in quarantine and all candidates but fixes, each with the active memory it contradicts, if any."""
    which = MemoryFilter(("quarantined", "candidate"), limit=MOST_WAITING)
    every = await toolbox.store.list_memories(toolbox.readable, which)
    found = [item for item in every if item.status == "quarantined" or FIX not in item.tags]
    against: dict[str, str] = {}
    for link in await toolbox.store.memory_links(toolbox.scope.readable(), [item.id for item in found]):
        if link.relation == "contradicts":
            against |= {link.src_id: link.dst_id, link.dst_id: link.src_id}
    others = await _items(toolbox, list(against.values()))
    active = {item.id: item for item in others.values() if item.status == "active"}
    return [
        Card("quarantined", item, item.status_reason or "no reason was given", active.get(against.get(item.id, "")))
        for item in found
    ]


async def _contradicting(toolbox: Toolbox) -> list[Card]:
    """Return the pairs that contradict each other, except those that a decision keeps."""
    scopes = toolbox.scope.readable()
    kept: set[frozenset[str]] = set()
    for events in in_force(await toolbox.store.review.decisions(scopes)).values():
        pairs = (event.data.get("pair") for event in events if event.data.get("decision") == "keep")
        kept.update(frozenset(map(str, pair)) for pair in pairs if isinstance(pair, list))
    links = await toolbox.store.review.contradicting(scopes, MOST_WAITING)
    both = {frozenset((link.src_id, link.dst_id)): link for link in reversed(links)}
    waiting = [link for pair, link in reversed(both.items()) if pair not in kept]
    items = await _items(toolbox, [each for link in waiting for each in (link.src_id, link.dst_id)])
    return [
        Card("contradicting", items[link.src_id], f"they give opposite advice ({link.weight:.0%})", items[link.dst_id])
        for link in waiting
        if items.keys() >= {link.src_id, link.dst_id}
    ]


def _why_unverified(item: MemoryItem) -> str:
    source = item.provenance
    origin = (
        f"an import ({source.imported_from})"
        if source.imported_from
        else {"model": "a model", "agent": "an agent"}.get(source.distiller, f"a verdict by {source.judge or 'nobody'}")
    )
    why = "; the agent had been shown a step of it before" if source.repeats_shown else ""
    return f"shown {counted(item.usage_count, 'time')}, but only {origin} vouches for it{why}"
