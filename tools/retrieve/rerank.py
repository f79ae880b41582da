"""The second stage of a search of sources: its best read together with the query, by a cross-encoder or by a chat
model.

A chat model's structured answer is checked against what it was shown.
"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelError
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.model.ask import Answered, Effort, ask, load_prompt, render
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.ports.models import ChatModel, Ranked, RerankCandidate, Reranker
from swarm_memory.tools.text.cleaning import clean, shorten
from swarm_memory.tools.toolbox import Toolbox

_MAX_JUSTIFICATION_CHARS = 300
_MAX_TEXT_CHARS = 1_600


class ToolScore(Answered):
    """What the model says of one tool."""

    tool_name: str
    relevance_score: float
    justification: str


class ToolChoice(Answered):
    """The model's answer about tools."""

    scores: list[ToolScore]
    selected_tools: list[str]


@dataclass(frozen=True, slots=True)
class Order:
    """Those that were judged, best first; who judged them; what went wrong. Empty: the order stays as it was."""

    ranked: Sequence[Ranked] = ()
    reranker: str | None = None
    notices: tuple[str, ...] = ()


async def reordered(
    toolbox: Toolbox,
    query: str,
    shown: Sequence[tuple[str, str, str]],
    timeout_s: float,
    *,
    may_chat: bool,
) -> Order:
    """Have candidates, given as (title, group, text), put in order by whom `sources.reranker` names.

    `endpoint`, `chat`, `auto` for the first of these that there is; any other: nobody. What is set and cannot be done,
    fails or takes longer gives an empty order and a notice.
    """
    way = toolbox.settings.sources.reranker
    reranker: Reranker
    if way in ("auto", "endpoint") and toolbox.reranker is not None:
        reranker = toolbox.reranker
    elif way == "endpoint":
        return Order(notices=("sources.reranker is endpoint, and sources.rerank_url is not set",))
    elif way in ("auto", "chat") and toolbox.chat is not None and may_chat:
        reranker = ChatReranker(toolbox.chat, timeout_s)
    else:
        lacking = "sources.reranker is chat, and no chat model is set"
        return Order(notices=(lacking,) if way == "chat" and toolbox.chat is None else ())
    if len(shown) < 2:
        return Order()
    try:
        async with asyncio.timeout(timeout_s):
            ranked, notices = await reranker.rerank(query, _candidates(shown))
    except TimeoutError:
        reason = f"it gave no answer within {timeout_s:g} s"
    except ModelError as error:
        reason = redact(str(error)).text
    else:
        return Order(ranked, reranker.name, tuple(notices))
    failed = f"in the order of the index alone, because the reranker {reranker.name} failed: {reason}"
    return Order(notices=(failed,))


def _candidates(shown: Sequence[tuple[str, str, str]]) -> list[RerankCandidate]:
    """Name each by its title; two of one title get their group before it, and a number where that is not enough."""
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

    def __init__(self, chat: ChatModel, timeout_s: float) -> None:
        self.name = chat.name
        self._chat = chat
        self._timeout_s = timeout_s

    async def rerank(self, query: str, candidates: Sequence[RerankCandidate]) -> tuple[list[Ranked], list[str]]:
        """Return those that the model judged, those it selected first, else by score.

        Names that it made up are left out, with a notice. Raises `ModelUnavailable`, and `ModelAnswerInvalid` when not
        one score is of a candidate that it was shown.
        """
        shown = "\n\n".join(f"tool_name: {each.name}\n{each.text}" for each in candidates)
        prompt = render(load_prompt("rerank_tools"), given={}, untrusted={"request": query, "tools": shown})
        effort = Effort(timeout_s=self._timeout_s)
        answer, name = await ask(self._chat, prompt, ToolChoice, purpose="rerank", effort=effort)
        if isinstance(answer, Unparsed):
            raise ModelAnswerInvalid(f"{name} gave no usable order of the tools: {answer.reason}")
        selected = list(dict.fromkeys(answer.selected_tools))
        places = {each.name: place for place, each in enumerate(candidates)}
        valid: dict[str, ToolScore] = {}
        for each in answer.scores:
            if each.tool_name in places and math.isfinite(each.relevance_score) and 0 <= each.relevance_score <= 1:
                valid.setdefault(each.tool_name, each)
        if not valid:
            raise ModelAnswerInvalid(f"{name} scored none of the {len(candidates)} tools that it was shown")
        rank = {each: number for number, each in enumerate(each for each in selected if each in valid)}
        order = sorted(valid, key=lambda each: (rank.get(each, len(rank)), -valid[each].relevance_score))
        reasons = {each: clean(score.justification, _MAX_JUSTIFICATION_CHARS) or None for each, score in valid.items()}
        ranked = [Ranked(places[each], valid[each].relevance_score, reasons[each]) for each in order]
        unknown = len({*selected, *(each.tool_name for each in answer.scores)} - set(places))
        notices = [f"{name} named {unknown} tools that it was not shown: they were left out"] if unknown else []
        return ranked, notices
