"""Who chooses a tool: a reader of what the tool memory says of each, or the chat model."""

import hashlib
import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from swarm_memory.schema.errors import ModelAnswerInvalid
from swarm_memory.tools.benchmark.tool_choice.mock_tools import DESCRIPTION
from swarm_memory.tools.model.ask import Answered, Effort, ask
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import load_prompt, render
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.tokens import words_as_written

PROMPT = "benchmark_choose_tool"

_NAME = re.compile(r"`([^`]+)`")
_RATE = re.compile(r"\b(?P<what>expect success|success|score)(?: rate)?:? (?P<percent>\d{1,3}(?:\.\d+)?) ?%")
_COUNTED = re.compile(r"(?P<good>\d+) of (?P<calls>\d+)(?P<bad>(?: calls)? failed)?")
_QUOTED = re.compile(r'"([^"]+)"')
_LENGTH = re.compile(r"at most (?P<most>\d+) words|(?P<least>\d+) words or more|(?P<low>\d+) to (?P<high>\d+) words")
_OWN_WEIGHT = 2.0
"""What a tool's rate counts beside what is said of a kind of request: so many calls."""


class _Said(NamedTuple):
    """One line of the text on one tool: which questions it is about, and how those and the others went."""

    words: tuple[str, ...]
    low: int
    high: int
    counts: tuple[tuple[int, int], ...]
    """Good calls and calls: of what it is about, then of the others where it says so."""

    def about(self, question: str) -> bool:
        """Whether a quoted word is in the question, or its number of words lies between the bounds."""
        words = words_as_written(question)
        if self.words:
            return any(word in words or (not word.isascii() and word in question) for word in self.words)
        return self.low <= len(words) <= self.high


@dataclass(slots=True)
class _Read:
    """What the text says of one tool."""

    rate: float | None = None
    is_expected: bool = False
    """The rate is what to expect for this very question."""
    said: list[_Said] = field(default_factory=list[_Said])

    def expects(self, question: str) -> float | None:
        """Return the share of good calls to expect, or None where nothing is said.

        What names a word of the question says most, then what speaks of its length, then the tool's own rate.
        """
        if self.is_expected:
            return self.rate
        counts = [each.counts[0] for each in self.said if each.words and each.about(question)]
        if not counts:
            lengths = [(each, 0 if each.about(question) else 1) for each in self.said if not each.words]
            counts = [each.counts[at] for each, at in lengths if at < len(each.counts)]
        if self.rate is None and not counts:
            return None
        rate = 0.5 if self.rate is None else self.rate
        good = _OWN_WEIGHT * rate + sum(good for good, _ in counts)
        return good / (_OWN_WEIGHT + sum(calls for _, calls in counts))


class GuidanceReader:
    """Takes the tool that the Markdown speaks best of; what it says nothing of is as good as the average.

    It reads names in backticks, percentages after "success" and "score", and lines with counts ("9 of 11") that quote
    words or speak of a number of words. It knows no other wording. Without any of that it takes one at random.
    """

    name = "reader of the guidance"

    async def choose(self, question: str, tools: Sequence[str], guidance: str, seed: str) -> str:
        read = read_guidance(guidance)
        expected = {tool: read[tool].expects(question) if tool in read else None for tool in tools}
        known = [each for each in expected.values() if each is not None]
        average = sum(known) / len(known) if known else 0.0
        rated = {tool: average if each is None else each for tool, each in expected.items()}
        best = max(rated.values())
        chance = Random(hashlib.sha256(seed.encode()).digest())
        return chance.choice([tool for tool in tools if rated[tool] >= best - 1e-9])


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
            found[subject].is_expected = "expect success" in rates
            found[subject].rate = next(rates[what] for what in ("expect success", "score", "success") if what in rates)
        if subject and line.startswith(("- ", "* ")) and (said := _said(line)):
            found[subject].said.append(said)
    return dict(found)


def _said(line: str) -> _Said | None:
    counts = tuple(
        (int(each["calls"]) - int(each["good"]) if each["bad"] else int(each["good"]), int(each["calls"]))
        for each in _COUNTED.finditer(line)
    )
    words, length = tuple(word.lower() for word in _QUOTED.findall(line)), _LENGTH.search(line)
    if not counts or not (words or length):
        return None
    bounds = {name: int(value) for name, value in length.groupdict().items() if value} if length else {}
    low, high = bounds.get("low", bounds.get("least", 0)), bounds.get("high", bounds.get("most", sys.maxsize))
    return _Said(words, low, high, counts)


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
                timeout_s=self._timeout_s, seed=int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4]) >> 1
            ),
        )
        if isinstance(answer, Unparsed):
            raise ModelAnswerInvalid(answer.reason)
        if answer.tool.strip() not in tools:
            raise ModelAnswerInvalid(f"it chose a tool that there is not: {answer.tool[:60]!r}")
        return answer.tool.strip()
