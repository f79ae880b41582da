"""What an agent teaches: notes of a task, checked, cleaned of what is of one machine, tied to what calls for them."""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial

from swarm_memory.schema.base import MEMORY, RUN, new_id
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryItem, Note, Provenance
from swarm_memory.tools.anchors.handles import from_task, named_handles
from swarm_memory.tools.anchors.staleness import anchored
from swarm_memory.tools.consolidate.contradictions import link_contradictions
from swarm_memory.tools.consolidate.upkeep import queue_when_due
from swarm_memory.tools.distill.bounds import COPIED, copies, portable, words_of
from swarm_memory.tools.guard.gate import LOCAL, check_quota, gated, told_of
from swarm_memory.tools.guard.trust import says_all_of
from swarm_memory.tools.learn.items import same_in_bank
from swarm_memory.tools.memories.edit import checked_texts, set_memory_status
from swarm_memory.tools.memories.heard import NO_SESSION, Heard, Session
from swarm_memory.tools.memories.remember import NOTE_CONFIDENCE, Remembered, again, held, why_a_note
from swarm_memory.tools.ports.memories import DayLimit
from swarm_memory.tools.retrieve.embed import prepare_or_say
from swarm_memory.tools.text.pasted import without_quotations
from swarm_memory.tools.toolbox import Toolbox

MOST_NOTES = 3
"""Of one task: what is taught is few and short, or nobody reads it."""

TAUGHT, PREFERENCE = "note", "preference"
"""Tags of an agent's note, and of what the user wants from now on."""


async def remember_notes(toolbox: Toolbox, notes: Sequence[Note], session: Session = NO_SESSION) -> list[Remembered]:
    """Store an agent's notes, and return what became of each, in order.

    Each is redacted, screened and cleaned of paths in somebody's folders and addresses; commands, relative paths, flags
    and formats stay. It is the user's word where the agent says so and the words stand in a prompt of the session; of a
    note whose sentences only partly do, the others become a note of the agent's that follows it. What stands in a
    tool's result and in no prompt, or copies twelve words of one, waits in quarantine. What the bank knows is not
    stored twice; a note that says all of a known one and more takes the place of one that nobody bore out. Raises
    `InputError` for none, more than three, or a text that is not fit for a memory, `QuotaReached`, `StorageError`.
    """
    if not 1 <= len(notes) <= MOST_NOTES:
        raise InputError(f"notes has {len(notes)}: give one to {MOST_NOTES}")
    await check_quota(toolbox)
    parts = await asyncio.to_thread(lambda: [part for note in notes for part in _by_speaker(note, session)])
    heard = [where for _, where in parts]
    work = partial(_items, toolbox, parts, session)
    items = await anchored(toolbox, await asyncio.to_thread(lambda: [*work()]))
    prepared, fault = await prepare_or_say(toolbox, items)
    same = [await same_in_bank(toolbox, memory) for memory in prepared]
    done = [
        None
        if known is None or _says_more(memory.item, known)  # the user's word makes a known note his
        else await again(toolbox, known, by_hand=False, is_users=memory.item.provenance.is_users_word)
        for memory, known in zip(prepared, same, strict=True)
    ]
    new = [memory for memory, known in zip(prepared, done, strict=True) if known is None]
    limit = None if toolbox.new_per_day is None else DayLimit(toolbox.new_per_day, toolbox.clock.now())
    await toolbox.store.add_memories(new, toolbox.embedder.name, limit)
    for memory, known in zip(prepared, same, strict=True):
        if known is not None and _says_more(memory.item, known) and known.confidence <= NOTE_CONFIDENCE:
            why = f"superseded by {memory.item.id}, which says it all"
            await set_memory_status(toolbox, [known.id], "archived", why)
    await link_contradictions(toolbox, new, new_id(RUN))
    await queue_when_due(toolbox, embedder_answers=fault is None)
    return [
        known or _stored(memory.item, where, fault) for memory, known, where in zip(prepared, done, heard, strict=True)
    ]


def _by_speaker(note: Note, session: Session) -> Iterator[tuple[Note, Heard | None]]:
    """Yield a note, or the two of it: what a prompt says, then what the agent adds."""
    where = session.heard(note.note) if note.users_word else None
    if where is None or not where.said:
        yield note, where
        return
    yield note.model_copy(update={"note": where.said}), Heard("prompt", said=where.said)
    yield note.model_copy(update={"note": where.rest, "users_word": False}), None


def _items(toolbox: Toolbox, parts: Sequence[tuple[Note, Heard | None]], session: Session) -> Iterator[MemoryItem]:
    results = [
        words_of(step.text)
        for trajectory in session.trajectories
        for step in trajectory.steps
        if step.kind == "observation"
    ]
    calls = session.calls
    for note, where in parts:
        is_users = where is not None and where.where == "prompt"
        given = {"title": note.title, "description": note.when, "content": note.note, "domain": None}
        texts = {name: text and portable(text, toolbox.settings, session.root) for name, text in given.items()}
        texts = checked_texts({**texts, "tags": (PREFERENCE if note.users_word else TAUGHT,)}, toolbox.settings)
        # What the user wants holds beyond the commands of the task in which it was said.
        told = from_task(texts["title"], texts["description"], "" if is_users else texts["content"], calls)
        source = Provenance(
            task_id=session.task_id,
            session_id=session.session_id,
            distiller="user" if is_users else "agent",
            judge="agent",
            screened_by=LOCAL,
            heard_in=where and where.where,
            hearsay=where is not None and where.where == "result",
            handles=tuple(dict.fromkeys((*named_handles(note.handles, calls), *told))),
        )
        item = MemoryItem(
            id=new_id(MEMORY),
            scope=toolbox.scope,
            confidence=1.0 if is_users else NOTE_CONFIDENCE,
            created_at=toolbox.clock.now(),
            provenance=source,
            **texts,
        )
        yield held(_without_copies(gated(item), results), where)


def _without_copies(item: MemoryItem, results: Sequence[str]) -> MemoryItem:
    """Return in quarantine what copies a tool's result, but for what it quotes: commands and errors."""
    if item.status != "active" or item.provenance.is_users_word:
        return item
    if not copies(without_quotations(item.content), results):
        return item
    return item.model_copy(update={"status": "quarantined", "status_reason": COPIED})


def _says_more(item: MemoryItem, known: MemoryItem) -> bool:
    """Whether a note says all of a known one and more."""
    is_active = item.status == known.status == "active"
    return is_active and says_all_of(item, known) and not says_all_of(known, item)


def _stored(item: MemoryItem, heard: Heard | None, fault: str | None) -> Remembered:
    copied = COPIED if item.status_reason == COPIED else None
    parted = "of this note only what a prompt says is the user's word; the rest became a note of yours"
    told = (
        why_a_note(item, heard.tool) if heard else None,
        parted if heard and heard.where == "prompt" and heard.said else None,
        copied,
        told_of([item]),
        fault,
    )
    return Remembered(item, True, tuple(filter(None, told)))
