"""The second stage of a search of sources: the index's best in their final order, by whichever reranker there is.

A chat model is one of them: its structured answer is checked against the tools that it was shown.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import ModelAnswerInvalid, ModelError
from swarm_memory.schema.source import SourceHit, SourceKind
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.model.ask import Answered, Effort, ask
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import load_prompt, render
from swarm_memory.tools.ports.models import ChatModel, Ranked, RerankCandidate, Reranker
from swarm_memory.tools.text.cleaning import clean, shorten
from swarm_memory.tools.toolbox import Toolbox

CALLED: frozenset[SourceKind | None] = frozenset({"tool", "api"})
"""What an agent calls: a chat model is asked about these alone, it would have to read too much of the others."""

EXPERIENCE = "experience"
EXPERIENCE_SPAN = 0.03
"""Experience moves a tool by at most so much up or down: it decides between those that fit equally well."""

PROMPT = "rerank_tools"
_MAX_JUSTIFICATION_CHARS = 300
_MAX_TEXT_CHARS = 1_600


@dataclass(frozen=True, slots=True)
class Reranked:
    """The hits in their final order, who put them there, and what went wrong."""

    hits: list[SourceHit]
    reranker: str | None
    notices: tuple[str, ...] = ()


async def rerank(toolbox: Toolbox, query: str, hits: Sequence[SourceHit], kind: SourceKind | None) -> Reranked:
    """Put the first hits, at most `sources.rerank_top`, into their final order; the others follow as they were.

    A reranker that fails leaves the order as it is and is told. Without one, experience with tools breaks ties.
    """
    settings = toolbox.settings.sources
    reranker, notices = _reranker(toolbox, kind)
    if len(hits) < 2:
        return Reranked([*hits], None, notices)
    if reranker is None:
        if settings.reranker in ("auto", "experience") and kind in (None, "tool"):
            return await _by_experience(toolbox, hits, notices)
        return Reranked([*hits], None, notices)
    top = hits[: settings.rerank_top]
    try:
        ranked, told = await reranker.rerank(query, _candidates(top))
    except ModelError as error:
        failed = f"in the order of the index alone, because the reranker {reranker.name} failed: "
        return Reranked([*hits], None, (*notices, failed + redact(str(error)).text))
    order = [
        top[each.place].model_copy(update={"rerank_score": each.score, "justification": each.justification})
        for each in ranked
    ]
    judged = {each.place for each in ranked}
    rest = [hit for place, hit in enumerate(hits) if place not in judged]
    return Reranked([*order, *rest], reranker.name, (*notices, *told))


def _reranker(toolbox: Toolbox, kind: SourceKind | None) -> tuple[Reranker | None, tuple[str, ...]]:
    """Return who is asked, and what is set and cannot be done."""
    settings = toolbox.settings.sources
    if settings.reranker in ("auto", "endpoint") and toolbox.reranker is not None:
        return toolbox.reranker, ()
    if settings.reranker == "endpoint":
        return None, ("sources.reranker is endpoint, and sources.rerank_url is not set",)
    if settings.reranker in ("auto", "chat") and toolbox.chat is not None and kind in CALLED:
        named = " → ".join(each.name for each in toolbox.settings.chat.named(settings.rerank_chat))
        return ChatReranker(toolbox.chat, settings.rerank_timeout_s, named), ()
    if settings.reranker == "chat" and toolbox.chat is None:
        return None, ("sources.reranker is chat, and no chat model is set",)
    return None, ()


def _candidates(hits: Sequence[SourceHit]) -> list[RerankCandidate]:
    """Name each hit by its title, with its group where two have the same, and a number where that is not enough."""
    titles = [hit.passage.title for hit in hits]
    names: dict[str, None] = {}
    for hit in hits:
        title = hit.passage.title
        name = title if titles.count(title) == 1 and title not in names else f"{hit.passage.group}/{title}"
        number, wanted = 1, name
        while wanted in names:
            number += 1
            wanted = f"{name} ({number})"
        names[wanted] = None
    return [RerankCandidate(name, _text(hit)) for name, hit in zip(names, hits, strict=True)]


def _text(hit: SourceHit) -> str:
    passage = hit.passage
    return shorten("\n".join(part for part in (passage.description, passage.content) if part), _MAX_TEXT_CHARS)


async def _by_experience(toolbox: Toolbox, hits: Sequence[SourceHit], notices: tuple[str, ...]) -> Reranked:
    """Move each tool that was called before by what came of it; nothing is known of the others."""
    known = await experience(toolbox, [name for hit in hits for name in _called(hit)])
    if not known:
        return Reranked([*hits], None, notices)

    def moved(hit: SourceHit) -> float:
        shares = [known[name] for name in _called(hit) if name in known]
        return hit.score + (EXPERIENCE_SPAN * (2 * shares[0] - 1) if shares else 0.0)

    return Reranked(sorted(hits, key=moved, reverse=True), EXPERIENCE, notices)


def _called(hit: SourceHit) -> tuple[str, ...]:
    """Return the names that calls of a tool are logged by: hosts put the server before it."""
    if hit.passage.kind != "tool":
        return ()
    return f"mcp__{hit.passage.group}__{hit.passage.title}", hit.passage.title


async def experience(toolbox: Toolbox, tools: Sequence[str]) -> Mapping[str, float]:
    """Return the smoothed share 0…1 of calls that were good, (good + 1) / (calls + 2), of tools that were ever called.

    Good is what the evaluation says, and without any what the host reported.
    """
    scope: Scope = toolbox.scope
    memories = await toolbox.store.tool_memory.memories(scope, list(dict.fromkeys(tools))) if tools else []
    shares: dict[str, float] = {}
    for totals in (each.totals for each in memories):
        good, calls = (totals.good, totals.evaluated) if totals.evaluated else (totals.succeeded, totals.calls)
        if calls:
            shares[totals.tool_name] = (good + 1) / (calls + 2)
    return shares


class ToolScore(Answered):
    """What the model says of one tool."""

    tool_name: str
    relevance_score: float
    justification: str


class ToolChoice(Answered):
    """The model's answer."""

    scores: list[ToolScore]
    selected_tools: list[str]


class ChatReranker:
    """Asks a chat model how well each tool fits."""

    def __init__(self, chat: ChatModel, timeout_s: float, name: str = "") -> None:
        """Take the chat model and, where the settings name one for this, the name of the one that is asked."""
        self.name = name or chat.name
        self._chat = chat
        self._timeout_s = timeout_s

    async def rerank(self, query: str, candidates: Sequence[RerankCandidate]) -> tuple[list[Ranked], list[str]]:
        """Return the tools that the model judged, those it selected first, else by score.

        Names that it made up are left out and told.

        Raises `ModelUnavailable`, and `ModelAnswerInvalid` when not one score is of a tool that it was shown.
        """
        tools = "\n\n".join(f"tool_name: {each.name}\n{each.text}" for each in candidates)
        prompt = render(load_prompt(PROMPT), given={}, untrusted={"request": query, "tools": tools})
        answer, name = await ask(
            self._chat,
            prompt,
            ToolChoice,
            purpose="rerank",
            effort=Effort(timeout_s=self._timeout_s),
        )
        if isinstance(answer, Unparsed):
            raise ModelAnswerInvalid(f"{name} gave no usable order of the tools: {answer.reason}")
        return _checked(answer, candidates, name)


def _checked(answer: ToolChoice, candidates: Sequence[RerankCandidate], name: str) -> tuple[list[Ranked], list[str]]:
    places = {each.name: place for place, each in enumerate(candidates)}
    scores: dict[str, ToolScore] = {}
    for score in answer.scores:
        if score.tool_name in places and math.isfinite(score.relevance_score) and 0 <= score.relevance_score <= 1:
            scores.setdefault(score.tool_name, score)
    if not scores:
        raise ModelAnswerInvalid(f"{name} scored none of the {len(candidates)} tools that it was shown")
    chosen = [tool for tool in dict.fromkeys(answer.selected_tools) if tool in scores]
    rank = {tool: number for number, tool in enumerate(chosen)}
    order = sorted(scores.values(), key=lambda each: (rank.get(each.tool_name, len(rank)), -each.relevance_score))
    ranked = [
        Ranked(
            places[each.tool_name], each.relevance_score, clean(each.justification, _MAX_JUSTIFICATION_CHARS) or None
        )
        for each in order
    ]
    named = {*answer.selected_tools, *(each.tool_name for each in answer.scores)}
    unknown = len(named - set(places))
    notices = [f"{name} named {unknown} tools that it was not shown: they were left out"] if unknown else []
    return ranked, notices
