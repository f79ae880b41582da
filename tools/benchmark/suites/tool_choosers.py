"""Who chooses a tool: a reader of what the tool memory says of each, or the chat model."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from swarm_memory.schema.errors import ModelAnswerInvalid
from swarm_memory.tools.benchmark.suites.mock_tools import DESCRIPTION
from swarm_memory.tools.model.ask import Answered, Effort, ask
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import load_prompt, render
from swarm_memory.tools.ports.models import ChatModel

PROMPT = "benchmark_choose_tool"

_NAME = re.compile(r"`([^`]+)`")
_RATE = re.compile(r"\b(?P<what>success|score)(?: rate)?:? (?P<percent>\d{1,3}(?:\.\d+)?) ?%")
_TOLD = re.compile(r"^[-*] (?P<kind>Best|Worst) for: (?P<what>.*)$")
_COUNTED = re.compile(r"(?P<good>\d+) of (?P<calls>\d+)")
_WORD = re.compile(r"[^\W\d_]{3,}")
_LENGTH = re.compile(r"\d+ to \d+ words")
_OWN_WEIGHT = 4.0
"""What a tool's rate counts beside what is said of a word: so many calls."""
_UNCOUNTED = 2
"""Calls that a statement without counts stands for."""


@dataclass(slots=True)
class _Read:
    """What the text says of one tool."""

    rate: float | None = None
    words: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """By word: good calls and calls, as often as something is said of it."""

    def expects(self, words: frozenset[str]) -> float | None:
        """Return the share of good calls to expect, or None where nothing is said."""
        told = [each for word in words for each in self.words.get(word, ())]
        if self.rate is None and not told:
            return None
        rate = 0.5 if self.rate is None else self.rate
        good = _OWN_WEIGHT * rate + sum(good for good, _ in told)
        return good / (_OWN_WEIGHT + sum(calls for _, calls in told))


class GuidanceReader:
    """Takes the tool that the Markdown speaks best of; what it says nothing of is as good as the average.

    It reads names in backticks, percentages after "success" and "score", and the words after "Best for" and "Worst for"
    with their counts, as a person would. Without any of that it takes one by lot.
    """

    name = "reader of the guidance"

    async def choose(self, question: str, tools: Sequence[str], guidance: str, seed: str) -> str:
        read = read_guidance(guidance)
        words = frozenset(_WORD.findall(question.lower())) | _lengths(question)
        expected = {tool: read[tool].expects(words) if tool in read else None for tool in tools}
        known = [each for each in expected.values() if each is not None]
        average = sum(known) / len(known) if known else 0.0
        rated = {tool: average if each is None else each for tool, each in expected.items()}
        best = max(rated.values())
        drawn = Random(hashlib.sha256(seed.encode()).digest())
        return drawn.choice([tool for tool in tools if rated[tool] >= best - 1e-9])


def read_guidance(text: str) -> dict[str, _Read]:
    """Return what Markdown says of each tool that it names."""
    found: dict[str, _Read] = defaultdict(_Read)
    subject = ""
    for line in text.splitlines():
        named = _NAME.search(line)
        if named and (line.startswith("#") or line[:1].isdigit()):
            subject = named[1]
        rates = {rate["what"]: float(rate["percent"]) / 100 for rate in _RATE.finditer(line)}
        if subject and rates and found[subject].rate is None:
            found[subject].rate = rates.get("score", rates.get("success"))
        told = _TOLD.match(line)
        if subject and told:
            _take(found[subject], told["what"], is_best=told["kind"] == "Best")
    return dict(found)


def _take(read: _Read, what: str, *, is_best: bool) -> None:
    counted = _COUNTED.search(what)
    good, calls = (int(counted["good"]), int(counted["calls"])) if counted else (_UNCOUNTED * is_best, _UNCOUNTED)
    quoted = re.findall(r'"([^"]+)"', what) or [_COUNTED.sub("", what)]
    length = _LENGTH.search(what)
    for word in {length[0]} if length else {word for text in quoted for word in _WORD.findall(text.lower())}:
        read.words[word].append((good, calls))


def _lengths(question: str) -> frozenset[str]:
    """Return every way to say between which numbers the count of words lies, as guidance may put it."""
    count = len(question.split())
    return frozenset(f"{low} to {high} words" for low in range(count + 1) for high in range(count, 2 * count + 10))


class _Choice(Answered):
    """What the prompt asks for."""

    tool: str


class ChatChooser:
    """Asks the chat model, as an agent is asked that has these tools."""

    def __init__(self, model: ChatModel, timeout_s: float) -> None:
        self.name = model.name
        self._model, self._timeout_s = model, timeout_s

    async def choose(self, question: str, tools: Sequence[str], guidance: str, seed: str) -> str:
        """Return the name of a tool. Raises `ModelError`."""
        listed = "\n".join(f"- {tool}: {DESCRIPTION}" for tool in tools)
        answer, _ = await ask(
            self._model,
            render(
                load_prompt(PROMPT),
                given={"tools": listed},
                untrusted={"guidance": guidance or "(none)", "question": question},
            ),
            _Choice,
            purpose=PROMPT,
            effort=Effort(
                timeout_s=self._timeout_s,
                seed=int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4]) >> 1,
            ),
        )
        if isinstance(answer, Unparsed):
            raise ModelAnswerInvalid(answer.reason)
        if answer.tool.strip() not in tools:
            raise ModelAnswerInvalid(f"it chose a tool that there is not: {answer.tool[:60]!r}")
        return answer.tool.strip()
