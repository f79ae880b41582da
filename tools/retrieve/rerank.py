"""The second stage of a search: a cross-encoder or a chat model reads its best results together with the query.

Sources and memories share it. A chat model's structured answer is checked against what it was shown.
"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import dataclass

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelError
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.model.ask import AskOptions, BaseAnswer, ask, load_prompt, render
from swarm_memory.tools.model.parse import ParseFailure
from swarm_memory.tools.ports.models import ChatModel, Ranked, RerankCandidate, Reranker
from swarm_memory.tools.text.cleaning import clean, shorten
from swarm_memory.tools.toolbox import Toolbox

_MAX_JUSTIFICATION_CHARS = 300
_MAX_TEXT_CHARS = 1_600


class ToolScore(BaseAnswer):
    """The model's score of one tool."""

    tool_name: str
    relevance_score: float
    justification: str


class ToolChoice(BaseAnswer):
    """The model's answer about tools."""

    scores: list[ToolScore]
    selected_tools: list[str]


class MemoryScore(BaseAnswer):
    """The model's score of one memory."""

    memory: str
    relevance_score: float


class MemoryScores(BaseAnswer):
    """The model's answer about memories."""

    scores: list[MemoryScore]


@dataclass(frozen=True, slots=True)
class Form:
    """How a chat model is asked about one kind of candidates."""

    what: str
    """The kind in the plural; also the prompt's placeholder for them, and its name after `rerank_`."""
    label: str
    """The word before a candidate's name."""
    answer: type[ToolChoice] | type[MemoryScores]


TOOLS = Form("tools", "tool_name", ToolChoice)
MEMORIES = Form("memories", "memory", MemoryScores)


@dataclass(frozen=True, slots=True)
class Order:
    """The candidates that were judged, best first; who judged them; what went wrong. Empty: the order is unchanged."""

    ranked: Sequence[Ranked] = ()
    reranker: str | None = None
    notices: tuple[str, ...] = ()


async def rerank(
    toolbox: Toolbox,
    query: str,
    shown: Sequence[tuple[str, str, str]],
    form: Form,
    setting: tuple[str, str],
    timeout_s: float,
    *,
    may_chat: bool = True,
) -> Order:
    """Return the order in which the reranker that a setting names puts candidates, given as (title, group, text).

    `setting` is its name and value: `endpoint`, `chat`, or `auto` for the first of these that is set up; any other: no
    reranker. One that is not set up, fails or takes too long results in an empty order and a notice.
    """
    name, way = setting
    reranker: Reranker
    if way in ("auto", "endpoint") and toolbox.reranker is not None:
        reranker = toolbox.reranker
    elif way == "endpoint":
        return Order(notices=(f"{name} is endpoint, but sources.rerank_url is not set",))
    elif way in ("auto", "chat") and toolbox.chat is not None and may_chat:
        reranker = ChatReranker(toolbox.chat, form, timeout_s)
    else:
        lacking = f"{name} is chat, but no chat model is set"
        return Order(notices=(lacking,) if way == "chat" and toolbox.chat is None else ())
    if len(shown) < 2:
        return Order()
    try:
        async with asyncio.timeout(timeout_s):
            ranked, notices = await reranker.rerank(query, _candidates(shown))
    except TimeoutError:
        reason = f"it did not answer within {timeout_s:g} s"
    except ModelError as error:
        reason = redact(str(error)).text
    else:
        return Order(ranked, reranker.name, tuple(notices))
    failed = f"ordered by the index alone, because the reranker {reranker.name} failed: {reason}"
    return Order(notices=(failed,))


def _candidates(shown: Sequence[tuple[str, str, str]]) -> list[RerankCandidate]:
    """Name each by its title; two with the same title get their group before it, and a number if that is not enough."""
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

    def __init__(self, chat: ChatModel, form: Form, timeout_s: float) -> None:
        self.name = chat.name
        self._chat = chat
        self._form = form
        self._timeout_s = timeout_s

    async def rerank(self, query: str, candidates: Sequence[RerankCandidate]) -> tuple[list[Ranked], list[str]]:
        """Return the candidates that the model judged: those that it selected first, the others by score.

        Names that it made up are left out, with a notice. Raises `ModelUnavailable`, and `ModelAnswerInvalid` when no
        score is for a candidate that it was shown.
        """
        form = self._form
        shown = "\n\n".join(f"{form.label}: {each.name}\n{each.text}" for each in candidates)
        prompt = render(load_prompt(f"rerank_{form.what}"), given={}, untrusted={"request": query, form.what: shown})
        effort = AskOptions(timeout_s=self._timeout_s)
        answer, name = await ask(self._chat, prompt, form.answer, purpose="rerank", effort=effort)
        if isinstance(answer, ParseFailure):
            raise ModelAnswerInvalid(f"{name} returned no usable ranking of the {form.what}: {answer.reason}")
        if isinstance(answer, ToolChoice):
            scores = [(each.tool_name, each.relevance_score, each.justification) for each in answer.scores]
            selected = list(dict.fromkeys(answer.selected_tools))
        else:
            scores = [(each.memory, each.relevance_score, "") for each in answer.scores]
            selected = []
        places = {each.name: place for place, each in enumerate(candidates)}
        valid: dict[str, tuple[float, str]] = {}
        for candidate, score, why in scores:
            if candidate in places and math.isfinite(score) and 0 <= score <= 1:
                valid.setdefault(candidate, (score, why))
        if not valid:
            raise ModelAnswerInvalid(f"{name} scored none of the {len(candidates)} {form.what} that it was shown")
        rank = {each: number for number, each in enumerate(each for each in selected if each in valid)}
        order = sorted(valid, key=lambda each: (rank.get(each, len(rank)), -valid[each][0]))
        reasons = {each: clean(why, _MAX_JUSTIFICATION_CHARS) or None for each, (_, why) in valid.items()}
        ranked = [Ranked(places[each], valid[each][0], reasons[each]) for each in order]
        unknown = len({*selected, *(each for each, _, _ in scores)} - set(places))
        notices = [f"{name} named {form.what} that it was not shown: {unknown} left out"] if unknown else []
        return ranked, notices
