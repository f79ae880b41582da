"""Finding near memories that contradict each other: by a chat model if there is one, else by opposite instructions."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.schema.memory import MemoryItem, MemoryLink, Merged, Related
from swarm_memory.tools.consolidate.pairs import Near, Survey, retire
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.model.ask import AskOptions, BaseAnswer, ask, load_prompt, render
from swarm_memory.tools.model.parse import ParseFailure
from swarm_memory.tools.ports.models import ChatModel, Vector
from swarm_memory.tools.ports.records import UpkeepBatch, UpkeepChange
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.text.opposition import CACHED_TEXTS, CONTRADICTS, opposition
from swarm_memory.tools.toolbox import Toolbox

PROMPT = "contradiction"

MAX_ASKED = 40
"""The most pairs that a model is asked about in one run: those that a rule suspects first, then the nearest."""

MAX_PAIRS = 100_000
"""The most pairs that the rules examine in one run; the nearest are taken."""

_NEAREST = 8
"""At most this many memories of the bank are compared with each that is stored."""

_TIMEOUT_S = 45.0
_MAX_REASON_CHARS = 200


class Contradiction(BaseAnswer):
    """What the prompt asks for."""

    probability: float
    reason: str


@dataclass(slots=True)
class Conflicts:
    """What was found, and how."""

    related: list[Related] = field(default_factory=list[Related])
    asked: int = 0
    notices: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class _Suspect:
    """Two memories that may contradict each other, by their ids."""

    newer: str
    older: str
    by_rules: float
    cosine: float


async def find_conflicts(toolbox: Toolbox, survey: Survey, gone: set[str]) -> Conflicts:
    """Return the contradictions between near memories that are probable enough (`CONTRADICTS`).

    A model, if there is one, decides about `MAX_ASKED` pairs; the rules decide about the rest, and wherever the model
    gives no usable answer. Pairs already linked and memories in `gone` are left out. A link goes from newer to older.
    """
    found, chat = Conflicts(), toolbox.chat
    suspects = await _suspects(toolbox, survey, gone, found, every=chat is not None)
    for number, suspect in enumerate(suspects):
        related: Related | None = None
        if chat is not None and number < MAX_ASKED:
            found.asked += 1
            try:
                related = await _by_model(toolbox, chat, suspect, found)
            except ModelUnavailable as error:
                found.notices.append(f"contradictions were looked for by rules alone: {_brief(str(error))}")
                chat = None
        if related is None:
            related = _related(suspect.newer, suspect.older, suspect.by_rules)
        if related.link.weight >= CONTRADICTS:
            found.related.append(related)
    return found


WELL_USED, OUTVOTED = 3, 6
"""A new memory is doubted when those that it contradicts, each used three times or more, were used six times in total:
two that are well used, or one that is much used. One that contradicts the user's word is doubted at any age and use."""

DOUBTED = 0.5
"""The share of its confidence that a doubted memory keeps; a consolidation that finds one also quarantines it."""


def is_outvoted(others: Iterable[tuple[int, int]]) -> bool:
    """Whether the memories that a memory contradicts, each given as (priority, uses), speak against it."""
    return sum(OUTVOTED if said > 0 else uses for said, uses in others if said > 0 or uses >= WELL_USED) >= OUTVOTED


async def link_contradictions(toolbox: Toolbox, new: Mapping[str, Vector | None], run_id: str) -> None:
    """Link new memories (by id, oldest first) to what their words contradict, as a batch of the run.

    So nobody is shown both before a consolidation looks closer. Imports are left to it. An outvoted memory starts with
    less confidence. One in the very words of an older memory with the other outcome is archived as its duplicate; the
    older one is then shown with both outcomes. Raises `StorageError`.
    """
    links, scopes, later = list[MemoryLink](), (toolbox.scope,), {*new}
    changed: dict[str, Merged | None] = {}  # what a memory repeats; None: it is outvoted
    for item in await toolbox.store.get_memories(scopes, list(new)):
        vector, most = new[item.id], _NEAREST + len(later)
        if vector is not None and item.status == "active" and item.provenance.imported_from is None:
            near = await toolbox.store.nearest(scopes, toolbox.embedder.name, vector, most)
            ids = [each for each, _ in near if each not in later][:_NEAREST]
            older = await toolbox.store.get_memories(scopes, ids)
            weights = {each.id: opposition(item.advice, each.advice) for each in older if not _of_one_agent(item, each)}
            against = [each for each in older if weights.get(each.id, 0.0) >= CONTRADICTS]
            links += [_related(item.id, each.id, weights[each.id]).link for each in against]
            is_users, words = item.provenance.priority > 0, item.advice.lower().split()
            used = [(each.provenance.priority, each.usage_count) for each in against]
            same = [each.id for each in older if each.advice.lower().split() == words and each.outcome != item.outcome]
            if not is_users and (same or is_outvoted(used)):
                changed[item.id] = Merged(id=item.id, kept=same[0], similarity=1.0) if same else None
        later.discard(item.id)
    changes = list[UpkeepChange]()
    for seen in await toolbox.store.upkeep_items_of(toolbox.scope, toolbox.embedder, list(changed)) if changed else ():
        if (duplicate := changed[seen.id]) is None:
            changes.append(UpkeepChange(seen, round(seen.confidence * DOUBTED, 6)))
        else:
            archived, link = retire(seen, duplicate)
            changes.append(archived)
            links.append(link)
    if links:
        batch = UpkeepBatch(run_id, toolbox.clock.now(), tuple(changes), tuple(links))
        await toolbox.store.write_upkeep(toolbox.scope, batch)


def _of_one_agent(one: MemoryItem, other: MemoryItem) -> bool:
    """Whether one agent wrote both in one session: it knows what it says, and "X is Y; Z is not Y" is consistent."""
    session, writers = one.provenance.session_id, {one.provenance.distiller, other.provenance.distiller}
    return session is not None and session == other.provenance.session_id and writers <= {"agent", "user"}


async def _suspects(
    toolbox: Toolbox, survey: Survey, gone: set[str], found: Conflicts, *, every: bool
) -> list[_Suspect]:
    """Return the pairs to examine: those that a rule suspects and, with `every`, the `MAX_ASKED` nearest others."""
    import numpy

    pairs = survey.pairs
    if (beyond := len(pairs) - MAX_PAIRS) > 0:
        found.notices.append(f"{beyond} of {len(pairs)} near pairs were not searched for contradictions")
        pairs = pairs[(-pairs["cosine"]).argsort(kind="stable")[:MAX_PAIRS]]
    # Two blocks of memories at a time, whose clauses fit into the cache: in any other order most would be parsed again.
    block = CACHED_TEXTS // 2
    pairs = pairs[numpy.lexsort((pairs["first"] // block, pairs["second"] // block))]
    texts = await survey.texts_of(toolbox, pairs, attrgetter("advice"))
    suspected: list[_Suspect] = []
    others: list[_Suspect] = []
    for part in survey.parts(pairs):
        await toolbox.give_way()
        left = [pair for pair in part if gone.isdisjoint(pair.ids)]
        for suspect in await asyncio.to_thread(_look, left, texts):
            (suspected if suspect.by_rules else others).append(suspect)
        others = sorted(others, key=lambda suspect: -suspect.cosine)[: MAX_ASKED if every else 0]
    return [*sorted(suspected, key=lambda suspect: (-suspect.by_rules, -suspect.cosine)), *others]


def _look(pairs: Sequence[Near], texts: Mapping[str, str]) -> list[_Suspect]:
    """Apply the rules to pairs whose texts still exist."""
    found: list[_Suspect] = []
    for *both, cosine in pairs:
        newer, older = (each.id for each in sorted(both, key=lambda item: -item.position))
        if texts.keys() >= {newer, older}:
            found.append(_Suspect(newer, older, opposition(texts[newer], texts[older]), cosine))
    return found


async def _by_model(toolbox: Toolbox, chat: ChatModel, suspect: _Suspect, found: Conflicts) -> Related | None:
    """Return how likely the model considers a contradiction; None when its answer cannot be used, or one is gone."""
    asked = await toolbox.store.get_memories((toolbox.scope,), [suspect.newer, suspect.older])
    if len(asked) < 2:
        return None
    texts = {name: item.embedding_text for name, item in zip(("first", "second"), asked, strict=True)}
    prompt = render(load_prompt(PROMPT), given={}, untrusted=texts)
    answer, name = await ask(
        chat, prompt, Contradiction, purpose="contradiction", effort=AskOptions(timeout_s=_TIMEOUT_S)
    )
    if isinstance(answer, ParseFailure) or not 0 <= answer.probability <= 1:
        why = answer.reason if isinstance(answer, ParseFailure) else "its probability is not between 0 and 1"
        found.notices.append(f"rules decided about {suspect.newer} and {suspect.older}: {_brief(why)}")
        return None
    related = _related(suspect.newer, suspect.older, answer.probability)
    return related.model_copy(update={"method": "model", "prompt_hash": prompt.hash, "model": name})


def _related(newer: str, older: str, weight: float) -> Related:
    link = MemoryLink(src_id=newer, dst_id=older, relation="contradicts", weight=round(weight, 4))
    return Related(link=link, method="rules")


def _brief(text: str) -> str:
    return one_line(redact(text).text, _MAX_REASON_CHARS)
