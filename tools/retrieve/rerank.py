"""The second stage of a search: its best read together with the query, by a cross-encoder or by a chat model.

Sources and memories share it. A chat model's structured answer is checked against what it was shown.
"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelError
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.model.ask import Answered, Effort, ask
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import load_prompt, render
from swarm_memory.tools.ports.models import ChatModel, Ranked, RerankCandidate, Reranker
from swarm_memory.tools.text.cleaning import clean, shorten
from swarm_memory.tools.toolbox import Toolbox

MEMORIES_TIMEOUT_S = 5.0
"""After that the order of memories stays as it was, and the answer says so."""

_MAX_JUSTIFICATION_CHARS = 300
_MAX_TEXT_CHARS = 1_600


Candidates: TypeAlias = Literal["tools", "memories"]
"""What is put in order: also the prompt's placeholder for them, and its name behind `rerank_`."""

TOOLS: Candidates = "tools"
MEMORIES: Candidates = "memories"


class Score(Answered):
    """What a chat model says of one candidate."""

    name: str
    relevance_score: float
    justification: str


class Scores(Answered):
    """The answer of a chat model."""

    scores: list[Score]


@dataclass(frozen=True, slots=True)
class Order:
    """Those that were judged, best first; who judged them; what went wrong. Empty: the order stays as it was."""

    ranked: Sequence[Ranked] = ()
    reranker: str | None = None
    notices: tuple[str, ...] = ()


def find_reranker(
    toolbox: Toolbox, setting: tuple[str, str], what: Candidates, timeout_s: float, *, may_chat: bool = True
) -> tuple[Reranker | None, tuple[str, ...]]:
    """Return who is asked, and what is set and cannot be done.

    `setting` is its name and value: `endpoint`, `chat`, `auto` for the first of these that there is; any other: nobody.
    """
    name, way = setting
    if way in ("auto", "endpoint") and toolbox.reranker is not None:
        return toolbox.reranker, ()
    if way == "endpoint":
        return None, (f"{name} is endpoint, and sources.rerank_url is not set",)
    if way == "chat" and toolbox.chat is None:
        return None, (f"{name} is chat, and no chat model is set",)
    if way in ("auto", "chat") and toolbox.chat is not None and may_chat:
        named = " → ".join(each.name for each in toolbox.settings.chat.named(toolbox.settings.sources.rerank_chat))
        return ChatReranker(toolbox.chat, what, timeout_s, named), ()
    return None, ()


async def final_order(reranker: Reranker, query: str, candidates: Sequence[RerankCandidate], timeout_s: float) -> Order:
    """Have candidates put in order; a reranker that fails, or takes longer, gives an empty order and a notice."""
    try:
        async with asyncio.timeout(timeout_s):
            ranked, notices = await reranker.rerank(query, candidates)
    except TimeoutError:
        reason = f"it gave no answer within {timeout_s:g} s"
    except ModelError as error:
        reason = redact(str(error)).text
    else:
        return Order(ranked, reranker.name, tuple(notices))
    failed = f"in the order of the index alone, because the reranker {reranker.name} failed: {reason}"
    return Order(notices=(failed,))


async def reorder_memories(toolbox: Toolbox, query: str, shown: Sequence[tuple[str, str]]) -> Order:
    """Have memories, given as (title, text), put in order by whom `retrieve.rerank` names, within its time limit."""
    setting = ("retrieve.rerank", toolbox.settings.retrieve.rerank)
    reranker, notices = find_reranker(toolbox, setting, MEMORIES, MEMORIES_TIMEOUT_S)
    if reranker is None:
        return Order(notices=notices)
    candidates = candidates_of([(title, "", text) for title, text in shown])
    order = await final_order(reranker, query, candidates, MEMORIES_TIMEOUT_S)
    return replace(order, notices=(*notices, *order.notices))


def candidates_of(shown: Sequence[tuple[str, str, str]]) -> list[RerankCandidate]:
    """Make candidates of (title, group, text).

    Each is named by its title, with its group before it where two have the same, and a number where that is not enough.
    """
    titles = [title for title, _, _ in shown]
    names: dict[str, None] = {}
    for title, group, _ in shown:
        name = title if titles.count(title) == 1 and title not in names else f"{group}/{title}".removeprefix("/")
        number, wanted = 1, name
        while wanted in names:
            number += 1
            wanted = f"{name} ({number})"
        names[wanted] = None
    return [
        RerankCandidate(name, shorten(text, _MAX_TEXT_CHARS)) for name, (_, _, text) in zip(names, shown, strict=True)
    ]


class ChatReranker:
    """Asks a chat model how well each candidate fits."""

    def __init__(self, chat: ChatModel, what: Candidates, timeout_s: float, name: str = "") -> None:
        """Take the chat model and, where the settings name one for this, the name of the one that is asked."""
        self.name = name or chat.name
        self._chat = chat
        self._what: Candidates = what
        self._timeout_s = timeout_s

    async def rerank(self, query: str, candidates: Sequence[RerankCandidate]) -> tuple[list[Ranked], list[str]]:
        """Return those that the model judged, by score.

        Names that it made up are left out, with a notice. Raises `ModelUnavailable`, and `ModelAnswerInvalid` when not
        one score is of a candidate that it was shown.
        """
        what = self._what
        shown = "\n\n".join(f"name: {each.name}\n{each.text}" for each in candidates)
        prompt = render(load_prompt(f"rerank_{what}"), given={}, untrusted={"request": query, what: shown})
        effort = Effort(timeout_s=self._timeout_s)
        answer, model = await ask(self._chat, prompt, Scores, purpose="rerank", effort=effort)
        if isinstance(answer, Unparsed):
            raise ModelAnswerInvalid(f"{model} gave no usable order of the {what}: {answer.reason}")
        places = {each.name: place for place, each in enumerate(candidates)}
        ranked: dict[int, Ranked] = {}
        for each in answer.scores:
            if each.name in places and math.isfinite(each.relevance_score) and 0 <= each.relevance_score <= 1:
                why = clean(each.justification, _MAX_JUSTIFICATION_CHARS) or None
                place = places[each.name]
                ranked.setdefault(place, Ranked(place, each.relevance_score, why))
        if not ranked:
            raise ModelAnswerInvalid(f"{model} scored none of the {len(candidates)} {what} that it was shown")
        unknown = len({each.name for each in answer.scores} - set(places))
        notices = [f"{model} named {unknown} {what} that it was not shown: they were left out"] if unknown else []
        return sorted(ranked.values(), key=lambda each: -each.score), notices
