"""A chat model as reranker of tools: its structured answer, checked against the tools that it was shown."""

import math
from collections.abc import Sequence

from swarm_memory.schema.errors import ModelAnswerInvalid
from swarm_memory.tools.model.ask import Answered, Effort, ask
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import load_prompt, render
from swarm_memory.tools.ports.models import ChatModel, Ranked, RerankCandidate
from swarm_memory.tools.text.cleaning import clean

PROMPT = "rerank_tools"
_ANSWER_TOKENS = 3_000
_MAX_JUSTIFICATION_CHARS = 300


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

    def __init__(self, chat: ChatModel, timeout_s: float) -> None:
        self._chat = chat
        self._timeout_s = timeout_s

    @property
    def name(self) -> str:
        return self._chat.name

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
            effort=Effort(max_tokens=_ANSWER_TOKENS, timeout_s=self._timeout_s),
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
