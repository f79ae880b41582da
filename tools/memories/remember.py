"""Store what the user says as the user's own word, if the words were seen to be the user's; and what an agent teaches:
notes on a task, checked, cleaned of what is specific to one machine, with the handles that call for them.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import not_
from typing import Any, Literal, NamedTuple

from swarm_memory.schema.base import GLOBAL_PROJECT, MEMORY, RUN, new_id
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MAX_CONTENT, Kind, MemoryItem, Note, Provenance
from swarm_memory.schema.trajectory import Label, Trajectory
from swarm_memory.tools.anchors.handles import from_task, named_handles
from swarm_memory.tools.anchors.staleness import set_anchors
from swarm_memory.tools.consolidate.contradictions import link_contradictions
from swarm_memory.tools.consolidate.upkeep import queue_when_due
from swarm_memory.tools.distill.bounds import portable, tool_outputs
from swarm_memory.tools.guard.gate import LOCAL, admit_memory, check_daily_quota, notice_of
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.guard.rules import MARKS
from swarm_memory.tools.guard.trust import MIN_WORDS, occur_together, says_all_of, sentence_chunks
from swarm_memory.tools.guard.wording import NOTHING_READ, AgentContext, moment_of
from swarm_memory.tools.learn.learn import same_in_bank
from swarm_memory.tools.memories.decide import set_memory_status, vouch
from swarm_memory.tools.ports.memories import SearchQuery
from swarm_memory.tools.retrieve.embed import BACKLOG, EMBED, prepare_or_report, with_indexes
from swarm_memory.tools.text.cleaning import PLACEHOLDERS, clean, harmless
from swarm_memory.tools.text.intent import (
    LEAST_CHARS,
    asks_to_be_kept,
    is_meant_once,
    is_question,
    own_words,
    title_of,
    without_request,
)
from swarm_memory.tools.text.opposition import is_negated
from swarm_memory.tools.text.tokens import tokenize
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.calls import Call, calls_of
from swarm_memory.tools.trajectory.tasks import is_own_tool, is_task_prompt, task_text

SPOKEN = 0.8
"""The share of a sentence's words (by stem) that must be together in one prompt: docs/SECURITY.md."""

_EXACT = re.compile(r"`[^`\n]+`|\S*\w[./\\_:@$=~+-]\w\S*|\S*\d\S*|\B--?\w\S*")
"""Commands, paths, addresses, options, numbers: all of them must be in the prompt."""

_WHOLE = re.compile(r"""(?:[^.!?\n]|[.!?](?!["'”»)]{0,3}\s))*(?:[.!?]["'”»)]{0,3})?\s*""")
"""A sentence with its closing marks."""


@dataclass(frozen=True, slots=True)
class WordSource:
    """Where the words of a text were found."""

    where: Literal["prompt", "result", "nowhere", "unseen"]
    """unseen: there was no prompt to search."""
    tool: str = ""
    """For a result: the tool that returned it."""
    said: str = ""
    """The sentences that are in a prompt, if only some are; `rest` has the others."""
    rest: str = ""


UNSEEN = WordSource("unseen")


class Session(NamedTuple):
    """What is known about the session in which an agent says something."""

    session_id: str | None = None
    task_id: str | None = None
    """The task that the agent is working on."""
    trajectories: tuple[Trajectory, ...] = ()
    """Its tasks so far, as its transcript has them."""
    prompts: tuple[str, ...] = ()
    """The prompts that its hooks saw."""
    root: str = ""
    """The project's folder."""
    outcome: Label | None = None
    """How the task ended according to the agent: what a failed task taught is a guardrail."""

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of the task that the agent is working on."""
        return calls_of(self.trajectories[-1]) if self.trajectories else ()

    def read(self) -> AgentContext:
        """Return what the agent has read so far."""
        return AgentContext.of(tool_outputs(*self.trajectories), _said_in(self.trajectories, self.prompts))


NO_SESSION = Session()


def find_word_source(text: str, session: Sequence[Trajectory], prompts: Iterable[str] = ()) -> WordSource:
    """Return where the words of a text are in a session, or in prompts that its hooks saw.

    They are the user's if each sentence is in one prompt: `SPOKEN` of its words within two consecutive sentences, all
    that is exact in it, and the same negation ("never"). What is pasted into a prompt, asked in it, or meant only once
    does not count. Otherwise they are the result's in which one of the sentences came first, before the agent said it.
    Linear in the length of the session for each sentence.
    """
    steps = [step for trajectory in session for step in trajectory.steps]
    own = _said_in(session, prompts)
    if not own:
        return UNSEEN
    if not tokenize(text):  # a text of no words is in every prompt
        return WordSource("nowhere")
    wholes = [whole for whole in _WHOLE.findall(text) if whole.strip()]
    by_prompt = [all(any(_says(prompt, each) for prompt in own) for each in _sentences(whole)) for whole in wholes]
    if all(by_prompt):
        return WordSource("prompt")
    chosen = (by_prompt, map(not_, by_prompt)) if any(by_prompt) else ((), ())
    said, rest = ("".join(compress(wholes, each)).strip() for each in chosen)
    ours = {step.call_id for step in steps if step.tool_name is not None and is_own_tool(step.tool_name)}
    names = {step.call_id: step.tool_name or "" for step in steps if step.kind == "tool_call"}
    for sentence in _sentences(text):
        words = frozenset(tokenize(sentence))
        if len(words) < MIN_WORDS:
            continue
        for step in steps:
            if step.call_id not in ours and occur_together(words, step.text):
                if step.kind == "observation":
                    return WordSource("result", names.get(step.call_id, step.tool_name or ""), said, rest)
                break
    return WordSource("nowhere", "", said, rest)


def _said_in(session: Sequence[Trajectory], prompts: Iterable[str]) -> list[str]:
    """Return the user's own words in each prompt of a session, as its transcript and its hooks have them."""
    steps = [step for each in session for step in each.steps if step.kind == "message" and step.role == "user"]
    every = (*(each.task for each in session), *(step.text for step in steps), *prompts)
    return [own_words(task_text(each)) for each in every if is_task_prompt(each)]


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences; a very short one joins the next, or is dropped if it ends with ":" and has nothing exact."""
    before = ""
    for part in sentence_chunks(text):
        before = f"{before} {part}".strip()
        is_short = len(set(tokenize(before))) < MIN_WORDS
        if is_short and before.endswith(":") and not _EXACT.search(before):
            before = ""
        elif not is_short:
            yield before
            before = ""
    if before:
        yield before


def _is_made_of(title: str, said: str) -> bool:
    """Whether a title is made of words of what was said, with all that is exact in it, and has the same negation."""
    words, own = (frozenset(map(str.casefold, tokenize(each))) for each in (title, said))
    exact = {token for found in _EXACT.findall(title) for token in map(str.casefold, tokenize(found))}
    is_alike = exact <= own and len(words & own) >= SPOKEN * len(words)
    return bool(words) and is_alike and is_negated(title) == is_negated(said)


def _says(prompt: str, sentence: str) -> bool:
    words = frozenset(map(str.casefold, tokenize(sentence)))
    exact = {token for found in _EXACT.findall(sentence) for token in map(str.casefold, tokenize(found))}
    before, shared = "", frozenset[str]()
    for part in sentence_chunks(prompt):
        asks = is_question(part) and not asks_to_be_kept(part)
        if asks or (is_meant_once(part) and not is_meant_once(sentence)):
            before, shared = "", frozenset[str]()
            continue
        own = words.intersection(map(str.casefold, tokenize(part)))
        main = part if len(own) >= len(shared) else before
        if (
            exact <= own | shared
            and len(own | shared) >= SPOKEN * len(words)
            and is_negated(sentence) == is_negated(main)
        ):
            return True
        before, shared = part, own
    return False


NOTE_CONFIDENCE = 0.6
"""The confidence of an agent's note: that of what nobody judged."""

MOST_NOTES = 3
"""At most this many notes per task: what is taught must be little and short, or nobody reads it."""

_WHO_SAYS = ("user", "agent")
"""The distillers whose memories are, or can become, the user's word."""

TAUGHT, PREFERENCE = "note", "preference"
"""Tags of an agent's note, and of what the user wants from now on."""

ABOUT_THE_SAME = 0.5
"""The share of the shorter text's words that two texts about the same thing have in common."""

_LOOKED_AT = 20
_PLACE = re.compile(rf"<(?:{PLACEHOLDERS})>|{MARKS}")
"""The marks in a note for what was removed from it."""

_CONFIRM = "it becomes the user's word when the user says so: swarm-memory memories edit --confirm"
_WHY = {
    "result": "its words are in the result of {tool} but in none of the user's prompts",
    "nowhere": "its words are in no prompt of this session",
    "unseen": "none of the user's prompts can be seen from here: no hooks of this session have contacted this server",
}


class Remembered(NamedTuple):
    """What became of a text."""

    item: MemoryItem
    is_new: bool
    """False: the bank had it before."""
    notices: tuple[str, ...] = ()
    """Why it is held back, trusted less or marked; what was replaced in it; what could not be done for it."""


async def remember(
    toolbox: Toolbox,
    text: str,
    kind: Kind = "fact",
    *,
    everywhere: bool = False,
    by_hand: bool = False,
    attribution: WordSource = UNSEEN,
    read: AgentContext = NOTHING_READ,
) -> Remembered:
    """Store what the user said, in the project or, with `everywhere`, in all of the user's projects.

    Secrets are replaced as in any text. A text given `by_hand`, by the user's own command, is never held back, only
    marked. One that an agent passes on is screened, and is the user's word if its `attribution` is a prompt. Otherwise
    it is the agent's note, in the project only, and quarantined if it is in a tool's result or copies what was `read`.
    Words that the bank has are not stored again; `by_hand` they become active, and the user's. Raises `InputError` for
    a blank text or one over 4,000 characters, `QuotaReached` for an agent's, `StorageError`.
    """
    if len(text) > MAX_CONTENT:
        raise InputError(f"text has {len(text):,} characters, but may have only {MAX_CONTENT:,}: split it into parts")
    said = without_request(text.strip())
    if len(clean(said).strip()) < LEAST_CHARS or not any(map(str.isalnum, said)):
        raise InputError("text is empty or too short: pass what the user said")
    given = {"title": title_of(redact(said).text), "description": "", "content": said, "tags": (kind,), "domain": None}
    is_users = by_hand or attribution.where == "prompt"
    scope = toolbox.scope.model_copy(update={"project": GLOBAL_PROJECT} if everywhere and is_users else {})
    where = None if by_hand else attribution
    item = await asyncio.to_thread(_item, toolbox, {**given, "scope": scope}, where, read, is_users=is_users)
    known = [each for each in await toolbox.store.said(scope, item.content) if each.provenance.distiller in _WHO_SAYS]
    if known:
        return await _again(toolbox, known[0], by_hand=by_hand, is_users=is_users)
    (item,) = await set_anchors(toolbox, [item])
    ids, fault = await add_new(toolbox, [item])
    if not ids and (known := await toolbox.store.said(scope, item.content)):  # another process stored it meanwhile
        return await _again(toolbox, known[0], by_hand=by_hand, is_users=is_users)
    redacted = None if item.content == clean(said).strip() else "secrets or personal data in it were replaced"
    return _stored(item, attribution, redacted, fault, await _said_before(toolbox, item))


async def remember_notes(toolbox: Toolbox, notes: Sequence[Note], session: Session = NO_SESSION) -> list[Remembered]:
    """Store an agent's notes, and return what became of each, in order.

    Each is redacted, screened and cleaned of addresses and paths in somebody's folders; commands, relative paths, flags
    and formats stay. It is the user's word if the agent says so and the words are in a prompt of the session; if only
    some of its sentences are, the others become a separate note of the agent's after it. A note is quarantined if it
    was brought as the user's word but is only in a tool's result, or if it copies twelve words of results. What the
    bank knows is not stored twice; a note that says all of a known one and more replaces one that nobody bore out.
    Raises `InputError` for no notes, over three, or a text unfit for a memory, `QuotaReached`, `StorageError`.
    """
    if not 1 <= len(notes) <= MOST_NOTES:
        raise InputError(f"notes has {len(notes)} entries: give one to {MOST_NOTES}")
    await check_daily_quota(toolbox)
    parts = await asyncio.to_thread(lambda: [part for note in notes for part in _by_speaker(note, session)])
    items = await set_anchors(toolbox, await asyncio.to_thread(_items, toolbox, parts, session))
    same = [await same_in_bank(toolbox, with_indexes(item, None), by_words_first=True) for item in items]
    new = [item for item, known in zip(items, same, strict=True) if known is None or _takes_its_place(item, known)]
    paired = [(known, item) for item, known in zip(items, same, strict=True) if known is not None and item in new]
    superseded = {known.id: item.id for known, item in paired if known.confidence <= NOTE_CONFIDENCE}
    ids, fault = await add_new(toolbox, new, superseded=superseded)
    answers: list[Remembered] = []
    for item, known, (part, where) in zip(items, same, parts, strict=True):
        if item.id not in ids:
            known = known or await same_in_bank(toolbox, with_indexes(item, None))
            known = known or next(iter(await toolbox.store.said(item.scope, item.content)), None)
        if item.id not in ids and known is not None:
            # The user's word makes a known note the user's; if none was known, another process stored it meanwhile.
            is_users = item.provenance.is_users_word
            answers.append(await _again(toolbox, known, by_hand=False, is_users=is_users))
        else:
            marks = {*_PLACE.findall(item.content)} - {*_PLACE.findall(part.note)}
            held = f"{', '.join(sorted(marks))}: in place of what belongs to one machine or person" if marks else None
            answers.append(_stored(item, where, held, fault, await _said_before(toolbox, item)))
    return answers


def _by_speaker(note: Note, session: Session) -> Iterator[tuple[Note, WordSource | None]]:
    """Yield a note, or its two parts: what a prompt says, then what the agent adds."""
    where = find_word_source(note.note, session.trajectories, session.prompts) if note.users_word else None
    if where is None or not where.said:
        yield note, where
        return
    yield note.model_copy(update={"note": where.said}), WordSource("prompt", said=where.said)
    yield note.model_copy(update={"note": where.rest, "users_word": False}), None


def _items(toolbox: Toolbox, parts: Sequence[tuple[Note, WordSource | None]], session: Session) -> list[MemoryItem]:
    calls, items, read = session.calls, list[MemoryItem](), session.read()
    for note, where in parts:
        is_users = where is not None and where.where == "prompt"
        given = {"title": note.title, "description": note.when, "content": note.note}
        if is_users:
            given["title"] = note.title if _is_made_of(note.title, note.note) else title_of(note.note)
            given["description"] = moment_of(note.when)
        texts: dict[str, Any] = {name: portable(text, toolbox.settings, session.root) for name, text in given.items()}
        # What the user wants holds beyond the commands of the task in which it was said.
        of_task = from_task(texts["title"], texts["description"], "" if is_users else texts["content"], calls)
        handles = tuple(dict.fromkeys((*named_handles(note.handles, calls), *of_task)))
        about = {"judge": "agent", "task_id": session.task_id, "session_id": session.session_id, "handles": handles}
        texts |= {"tags": (PREFERENCE if note.users_word else TAUGHT,), "scope": toolbox.scope}
        texts |= {"outcome": "Failure"} if session.outcome == "Failure" and not note.users_word else {}
        items.append(_item(toolbox, texts, where, read, about, is_users=is_users))
    return items


def _item(
    toolbox: Toolbox,
    said: Mapping[str, Any],
    attribution: WordSource | None,
    read: AgentContext,
    about: Mapping[str, Any] | None = None,
    *,
    is_users: bool,
) -> MemoryItem:
    """Return a new memory as the gate admits it; with an `attribution`, an agent brings it as the user's words."""
    source = Provenance(
        distiller="user" if is_users else "agent",
        judge=None if attribution is None else "agent",
        screened_by=LOCAL,
        session_id=next(iter(toolbox.speakers), None),
        heard_in=None if attribution is None else attribution.where,
        repeats_shown=attribution is not None and attribution.where == "result",
    )
    confidence = 1.0 if is_users else NOTE_CONFIDENCE
    new = {"id": new_id(MEMORY), "confidence": confidence, "created_at": toolbox.clock.now(), **said}
    known = source.model_copy(update={name: each for name, each in (about or {}).items() if each is not None})
    return admit_memory(new, known, toolbox.settings, read)


def _takes_its_place(item: MemoryItem, known: MemoryItem) -> bool:
    """Whether a note replaces a known one: it says all of that and more, or is the user's word in other words."""
    if not item.status == known.status == "active":
        return False
    if item.provenance.is_users_word and not known.provenance.is_users_word:
        return known.provenance.distiller != "agent" or item.content != known.content
    return says_all_of(item, known) and not says_all_of(known, item)


async def add_new(
    toolbox: Toolbox,
    items: Sequence[MemoryItem],
    *,
    later: bool = False,
    once: bool = True,
    superseded: Mapping[str, str] | None = None,
) -> tuple[list[str], str | None]:
    """Write new memories, with `once` not those that another process wrote a moment ago; archive what they supersede.

    `superseded` maps the id of a known memory to that of the new one.

    If a worker is running, or `later` says so, the job that makes their vectors and does what needs them is queued in
    the same transaction, so that no kill loses any. Return the ids that were new, and why the embedder made no vectors
    if it failed. Raises `QuotaReached`, `StorageError`.
    """
    later = later or toolbox.wake is not None
    memories, fault = [with_indexes(item, None) for item in items if later], None
    if not later:
        memories, fault = await prepare_or_report(toolbox, items)
    limit = None if toolbox.new_per_day is None else (toolbox.new_per_day, toolbox.clock.now())
    job = toolbox.job(EMBED, BACKLOG) if later else None
    ids = await toolbox.store.add_memories(memories, toolbox.embedder.name, limit, job, once=once)
    if toolbox.wake is not None:
        toolbox.wake()
    for known_id, by_id in (superseded or {}).items():
        if by_id in ids:
            why = f"superseded by {by_id}, which says all of it and more"
            await toolbox.store.set_status(toolbox.scope.readable(), [known_id], "archived", why)
    if not later:
        vectors = {each.item.id: each.vector for each in memories if each.item.id in ids}
        await link_contradictions(toolbox, vectors, new_id(RUN))
        await queue_when_due(toolbox, embedder_answers=fault is None)
    return ids, fault


async def _again(toolbox: Toolbox, known: MemoryItem, *, by_hand: bool, is_users: bool) -> Remembered:
    """Return what becomes of a text that the bank has already: `by_hand`, it becomes active again."""
    if is_users and not known.provenance.is_users_word:
        if not by_hand and known.status != "active":
            return Remembered(known, False, tuple(filter(None, (notice_of([known]),))))
        (known,) = (await vouch(toolbox, known.id, by_hand=by_hand)).items
        return Remembered(known, False)
    if not by_hand:
        return Remembered(known, False, tuple(filter(None, (_why_a_note(known), notice_of([known])))))
    await set_memory_status(toolbox, [known.id], "active", "said again by the user")
    (item,) = await toolbox.store.get_memories((known.scope,), [known.id])
    return Remembered(item, False)


async def _said_before(toolbox: Toolbox, item: MemoryItem) -> str | None:
    """Return what else the user said about the same thing, judged by words: only the user knows whether both hold."""
    if not item.provenance.is_users_word:
        return None
    words = frozenset(tokenize(item.content))
    query = SearchQuery(toolbox.readable, toolbox.embedder.name, None, tuple(words), _LOOKED_AT)
    shared = {each.id: len(each.words) for each in (await toolbox.store.search(query)).candidates}
    for other in await toolbox.store.get_memories(toolbox.readable, sorted(shared, key=lambda each: -shared[each])):
        theirs = frozenset(tokenize(other.content))
        least = max(2, ABOUT_THE_SAME * min(len(words), len(theirs)))
        if other.id != item.id and other.provenance.is_users_word and len(words & theirs) >= least:
            withdraw = f"swarm-memory memories quarantine {other.id}"
            return f"the user said before: {other.title}; if that no longer holds, withdraw it: {withdraw}"
    return None


def _stored(item: MemoryItem, attribution: WordSource | None, *said: str | None) -> Remembered:
    """Return what became of a new memory: why it is held back or only a note, then the further notices in `said`."""
    parted = "only what a prompt says is kept as the user's word; the rest of this note became a note of yours"
    notices = (
        _why_a_note(item, attribution.tool) if attribution else None,
        parted if attribution and attribution.where == "prompt" and attribution.said else None,
        notice_of([item]),
        *said,
    )
    return Remembered(item, True, tuple(filter(None, notices)))


def _why_a_note(item: MemoryItem, tool: str = "") -> str | None:
    """Return why what an agent brought as the user's word is its own note, and how it becomes the user's; else None."""
    where = item.provenance.heard_in
    if where is None or item.provenance.is_users_word:
        return None
    why = _WHY[where].format(tool=f"`{harmless(tool[:60])}`" if tool else "a tool")
    kept = "held back, and not retrieved" if item.status == "quarantined" else "kept as the agent's note"
    return f"{kept}, not as the user's word: {why}; {_CONFIRM} {item.id}"
