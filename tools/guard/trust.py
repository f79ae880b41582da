"""How far a memory is trusted: by what it rests on, who has confirmed it since, and whether it repeats what was shown.

Screening keeps out what looks like an attack. This limits the harm of attacks that do not look like one.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias, cast

from swarm_memory.schema.base import CONNECTION, is_teams
from swarm_memory.schema.memory import MemoryDraft, MemoryItem, MemoryLink, ScoredMemory
from swarm_memory.schema.sqlite.events import BEGAN
from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.tools.ports.records import DECIDED, TAKEN_BACK, BankEvent
from swarm_memory.tools.text.cleaning import lazy
from swarm_memory.tools.text.tokens import tokenize
from swarm_memory.tools.toolbox import Toolbox

MAX_UNVERIFIED = 1
"""At most this many unverified memories are in an answer that verified ones could fill."""

CREDITED, REINFORCED = "reasoning_memory.credited", "reasoning_memory.reinforced"
RESTORED = "reasoning_memory.active"

_NOTED = {"agent": "Noted by an agent, not confirmed: ", "model": "Noted by a model, not confirmed: "}

_WIDER = 4
"""How many times as many are searched for verified ones, when too many are unverified."""

COVERED = 0.7
"""The share of a step's distinct words (by stem) that occur together where the step was shown or done."""

MIN_WORDS = 3
"""A step of fewer words ("run the tests") is too common to be traced to anybody."""

_MAX_CHARS = 400
_STEM_CHARS = 4
_NUMBER = lazy(r"^\s*(?:\d{1,3}[.)]|[-*])\s+")
_QUOTED = lazy(r'"[^"\n]*"')
"""What a lesson quotes is a symptom, not a step."""

_ENDS = lazy(r"[\n\r]+|(?<=[.;!?:])\s+|[<>{}]+|\\n")

Fetch = Callable[[int], Sequence[ScoredMemory]]
"""Returns the best k that fit, by their scores alone."""


def rests_on_evidence(item: MemoryItem) -> bool:
    """Whether an item is the user's word, or was extracted here from calls alone, judged by evidence or the user.

    A task's evidence does not vouch for what an agent or a model says about the task, for what the agent was shown, or
    for suspect wording.
    """
    source = item.provenance
    if source.priority != 0:
        return source.priority > 0
    if is_teams(item.scope):
        return True  # a reviewer accepted it
    if source.repeats_shown:
        return False
    is_here = source.distiller == "extractive" and source.imported_from is None
    return is_here and source.judge in {"evidence", "user"}


def is_borne_out(item: MemoryItem, history: Iterable[BankEvent]) -> bool:
    """Whether the user restored or kept it, or a task of another session learned the same or succeeded by using it.

    An item that repeats what was shown, or has suspect wording, must be found by a task that was not shown it: its use
    proves nothing. (`learn.new_items` reinforces for no other task.)
    """
    doubted = item.provenance.repeats_shown or item.provenance.suspect is not None
    own = {session_of(each) for each in (item.provenance.task_id, item.provenance.session_id) if each is not None}
    vouched, is_found = 0, False
    uses: dict[str, bool] = {}  # by task; a later outcome of a task replaces its earlier one
    for event in history:
        is_agents, decision = event.data.get("by") == "agent", event.data.get("decision")
        if event.kind == DECIDED and is_agents and decision == "edit":
            vouched, is_found = 0, False  # what came before was about other words
            uses.clear()
        if event.kind == RESTORED:
            vouched += "run_id" not in event.data
        elif decision in ("keep", "restore") and not is_agents:  # the user vouches for it
            vouched = max(0, vouched + {DECIDED: 1, TAKEN_BACK: -1}.get(event.kind, 0))
        # A task that follows planted advice succeeds as well: only one that finds it unprompted is a witness.
        if event.kind not in (REINFORCED, CREDITED):
            continue
        said_by = cast("list[str]", event.data.get("said_by") or [event.data.get("session_id")])
        others = {session_of(str(each)) for each in (event.data.get("task_id"), *said_by) if each is not None}
        is_another = bool(others) and others.isdisjoint(own)  # two tasks of one session are not independent witnesses
        change, was_used = event.data.get("change"), event.data.get("method", "none") != "none"
        helped = event.data.get("label") == "Success" and isinstance(change, int | float) and change > 0
        if event.kind == REINFORCED:
            is_found |= is_another
        else:
            uses[str(event.data.get("task_id"))] = is_another and helped and was_used and not doubted
    return is_found or any(uses.values()) or vouched > 0


Histories: TypeAlias = dict[str, list[BankEvent]]
"""The events that confirm memories or not, by memory id, as far as they were looked up."""


async def unverified(toolbox: Toolbox, items: Sequence[MemoryItem], known: Histories | None = None) -> set[str]:
    """Return the ids of items that only a model, an agent or another bank vouches for; extends `known`."""
    asked = {item.id: item for item in items if not rests_on_evidence(item)}
    histories = await _histories(toolbox, asked, {} if known is None else known)
    return {memory_id for memory_id, item in asked.items() if not is_borne_out(item, histories[memory_id])}


async def _histories(toolbox: Toolbox, ids: Iterable[str], known: Histories) -> Histories:
    kinds = (RESTORED, CREDITED, REINFORCED, DECIDED, TAKEN_BACK)
    if new := [each for each in ids if each not in known]:
        known |= await toolbox.store.memory_histories(toolbox.readable, new, kinds)
    return known


async def trust_prefixes(
    toolbox: Toolbox, items: Sequence[MemoryItem], known: Histories | None = None
) -> dict[str, str]:
    """Return by id the words before a memory's title that say who vouches for it: nobody yet, or several tasks.

    Nothing for what only one task's evidence shows, for the user's word, which the frame names, or for a team's.
    """
    asked = [item for item in items if item.provenance.priority <= 0 and not is_teams(item.scope)]
    histories = await _histories(toolbox, [item.id for item in asked], {} if known is None else known)
    said: dict[str, str] = {}
    for item in asked:
        history = histories[item.id]
        tasks = {str(event.data.get("task_id")) for event in history if event.kind == REINFORCED}
        if not (rests_on_evidence(item) or is_borne_out(item, history)):
            said[item.id] = _NOTED.get("agent" if item.provenance.judge == "agent" else item.provenance.distiller, "")
        elif others := len(tasks - {"None", item.provenance.task_id}):
            said[item.id] = f"Seen in {others + 1} tasks: "
    return said


async def of_both_outcomes(toolbox: Toolbox, items: Sequence[MemoryItem], links: Iterable[MemoryLink]) -> set[str]:
    """Return the ids of items that a task of the other outcome taught too, as a duplicate. `links`: all their links."""
    outcomes = {item.id: item.outcome for item in items if item.use == "strategy" and item.provenance.priority <= 0}
    twins = {link.src_id: link.dst_id for link in links if link.relation == "duplicate_of" and link.dst_id in outcomes}
    others = await toolbox.store.get_memories(toolbox.readable, list(twins)) if twins else []
    return {twins[each.id] for each in others if each.outcome != outcomes[twins[each.id]]}


async def prefer_verified(
    toolbox: Toolbox, found: tuple[ScoredMemory, ...], fetch: Fetch, wanted: int, looked: Histories | None = None
) -> tuple[ScoredMemory, ...]:
    """Return what was found, with at most one unverified memory where verified ones that fit can fill the rest.

    Where they cannot, the other unverified ones follow: a bank of nothing else answers as it would without this.
    """
    if sum(not rests_on_evidence(each.item) for each in found) <= MAX_UNVERIFIED:
        return found
    known = {each.item.id for each in found}
    ranked = (*found, *(each for each in fetch(wanted * _WIDER) if each.item.id not in known))
    doubtful = await unverified(toolbox, [each.item for each in ranked], looked)  # one lookup for all histories
    if len(doubtful & known) <= MAX_UNVERIFIED:
        return found
    places = [place for place, each in enumerate(ranked) if each.item.id in doubtful]
    surplus = places[MAX_UNVERIFIED:]
    first = [place for place in range(len(ranked)) if place not in surplus]
    return tuple(ranked[place] for place in [*first, *surplus][:wanted])


async def may_have_written(toolbox: Toolbox, item: MemoryItem, by: str | None, task: Trajectory | None) -> bool:
    """Whether an item noted over an unlinked connection may come from `by`, the session or connection doing `task`."""
    origin, by = item.provenance.session_id or "", by or ""
    if not origin.startswith(f"{CONNECTION}_"):
        return False
    if by.startswith(f"{CONNECTION}_"):
        if person := by.partition("-")[2]:  # over HTTP nothing else tells who calls
            return origin.partition("-")[2] in ("", person)
        return by.partition("_")[2] < item.id.partition("_")[2]  # ids sort by when they were made
    if task is None or task.task_id != f"{by}:1":
        task, _ = await toolbox.store.get_trajectory(toolbox.scope, f"{by}:1") or (None, None)
    # A session begins with its first task; one of which that is not known may have been there before.
    began = task.started_at if task is not None and task.session_id == by else None
    if began is None or began <= item.created_at:
        return True
    hooked = (await toolbox.store.memory_histories(toolbox.readable, [by], (BEGAN,)))[by]
    return any(event.at <= item.created_at for event in hooked)


def session_of(task: str) -> str:
    """Return the session of a host's task, whose tasks all share one context; of any other task its own id."""
    session, colon, name = task.rpartition(":")
    return session if colon and (name.isdigit() or name.startswith("agent-")) else task


def repeats_what_was_shown(
    lesson: MemoryDraft | MemoryItem, trajectory: Trajectory, had: Sequence[MemoryItem | MemoryDraft] = ()
) -> bool:
    """Whether any step of a lesson was shown to the agent before the agent did or said it by itself.

    A success proves that the steps were taken, not that they were the agent's own: an attack that is followed
    succeeds too.
    `had` are the memories that the task was given and that nobody vouches for. A text shows a step where enough of the
    step's words are within one or two sentences. Linear in the length of the trajectory for each step of the lesson.
    """
    beforehand = [trajectory.task, *(f"{each.title}\n{each.content}" for each in had)]
    lines = (frozenset(tokenize(_QUOTED.sub(" ", _NUMBER.sub("", line)))) for line in lesson.content.splitlines())
    return any(_was_shown(words, beforehand, trajectory.steps) for words in lines if len(words) >= MIN_WORDS)


def says_all_of(new: MemoryItem, known: MemoryItem) -> bool:
    """Whether every word of a known memory's advice is in a new one; numbers in quotations do not count.

    The new one does not vouch for what it leaves out: one step of many may be the one that was planted.
    """
    quoted = (word for part in _QUOTED.findall(known.content) for word in tokenize(part) if word.isalpha())
    words = {*tokenize(_QUOTED.sub(" ", known.content)), *quoted}
    return words <= set(tokenize(f"{new.title}\n{new.content}"))


def _was_shown(words: frozenset[str], beforehand: Iterable[str], steps: Sequence[Step]) -> bool:
    if any(occur_together(words, text) for text in beforehand):
        return True
    for step in steps:
        given = "" if step.tool_input is None else "\n" + json.dumps(step.tool_input, ensure_ascii=False)
        if occur_together(words, step.text + given):
            return step.role != "assistant"
    return False


def occur_together(words: frozenset[str], text: str) -> bool:
    """Whether enough of the words are in two consecutive sentences."""
    needed = COVERED * len(words)
    lower = text.lower()
    # A text is split only where the beginnings of the words are in it; in ASCII no accent can hide them.
    if text.isascii() and sum(word[:_STEM_CHARS] in lower for word in words) < needed:
        return False
    before: frozenset[str] = frozenset()
    for part in sentence_chunks(text):
        found = words.intersection(tokenize(part))
        if len(found | before) >= needed:
            return True
        before = found
    return False


def sentence_chunks(text: str) -> Iterator[str]:
    for part in _ENDS.split(text):
        for start in range(0, len(part), _MAX_CHARS):
            yield part[start : start + _MAX_CHARS]
