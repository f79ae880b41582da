"""The questions, three mock search tools, and what chooses one of them: a reader of the tool memory's guidance, or the
chat model.

Success and relevance are random for each call alone: its generator is seeded by the hash of the run's seed, the epoch,
the phase, the question and the tool, so that no call affects another one and a run can be repeated. Outputs look like
those of a search and never mention quality.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from pydantic import TypeAdapter

from swarm_memory.schema.base import digest
from swarm_memory.schema.benchmark import DatasetInfo
from swarm_memory.schema.errors import InputError, ModelAnswerInvalid
from swarm_memory.tools.benchmark.retrieval.datasets import parsed
from swarm_memory.tools.benchmark.retrieval.retrieval import read_text
from swarm_memory.tools.benchmark.suite import checked
from swarm_memory.tools.model.ask import AskOptions, BaseAnswer, ask, load_prompt, render
from swarm_memory.tools.model.parse import ParseFailure
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.tokens import words_as_written

Level = Literal["simple", "moderate", "complex"]
LEVELS: tuple[Level, ...] = ("simple", "moderate", "complex")

TOOLS = ("SearchToolA", "SearchToolB", "SearchToolC")
DESCRIPTION = "Searches the web for a question and returns the results as text."
"""The same for every tool: a description must not give away what is to be found out."""


class Profile(NamedTuple):
    """Probabilities of one call."""

    success: float
    """That it answers, and does not say that it is busy."""
    relevance: float
    """That an answer is about the question."""


PROFILES: dict[str, dict[Level, Profile]] = {
    "SearchToolA": {"simple": Profile(0.9, 0.9), "moderate": Profile(0.2, 0.2), "complex": Profile(0.5, 0.5)},
    "SearchToolB": {"simple": Profile(0.3, 0.3), "moderate": Profile(0.9, 0.9), "complex": Profile(0.5, 0.5)},
    "SearchToolC": {"simple": Profile(0.3, 0.3), "moderate": Profile(0.4, 0.4), "complex": Profile(0.9, 0.9)},
}


def best_tool(level: Level) -> str:
    """Return the tool that is most often useful at a level."""
    return max(TOOLS, key=lambda tool: PROFILES[tool][level])


class LeveledQuestion(NamedTuple):
    """One question and its level, which only the mock tools know."""

    text: str
    level: Level


class QuestionSet(NamedTuple):
    """The questions of a run: those that are trained on, and those that are tested on."""

    name: str
    train: tuple[LeveledQuestion, ...]
    test: tuple[LeveledQuestion, ...]

    @property
    def info(self) -> DatasetInfo:
        """What the run reports about its data."""
        hashed = digest([[list(each) for each in part] for part in (self.train, self.test)])
        return DatasetInfo(name=self.name, hash=hashed, items=len(self.train), questions=len(self.test))


_FILE = TypeAdapter(dict[str, dict[str, tuple[str, ...]]])


def questions_of(path: Path | None = None, per_level: int | None = None) -> QuestionSet:
    """Return a file's questions, or those that ship (None), at most `per_level` of each level. Raises `InputError`.

    The file is like ReMe's `query.json`: `{train, test}`, each `{simple, moderate, complex}` with a list of texts.
    """
    shipped = files("swarm_memory.tools.benchmark").joinpath("data", "tool_questions.json")
    name, text = ("own questions", shipped.read_text("utf-8")) if path is None else (path.name, read_text(path))
    given = checked(_FILE, parsed(text, name), name)
    parts = [{level: given.get(part, {}).get(level, ()) for level in LEVELS} for part in ("train", "test")]
    if not all(found for part in parts for found in part.values()):
        raise InputError(f"{name}: train and test must each have texts in the lists {', '.join(LEVELS)}")
    train, test = (
        tuple(LeveledQuestion(each, level) for level in LEVELS for each in part[level][:per_level]) for part in parts
    )
    return QuestionSet(name, train, test)


BUSY = "Error: Service busy, please try again later"

_SITES = ("reference.example", "answers.example", "library.example", "journal.example", "handbook.example")
_ABOUT = (
    "{question} What is known about it, with sources and figures.",
    "An article that answers: {question} It begins with a short overview.",
    "Readers asked: {question} Here is the reply, and what it rests on.",
    "{question} A page that goes through it point by point.",
)
_ELSEWHERE = (
    ("Opening hours of the municipal swimming pool", "Lanes are free before nine; the sauna is closed on Mondays."),
    ("Recipe for a quick lentil soup", "Simmer red lentils with cumin and lemon; serve with flat bread."),
    ("Used bicycles near you", "Nine offers, from city bikes to a child's trailer; prices are negotiable."),
    ("Ten names for a grey cat", "Ash, Pebble, Smoke, Slate: our visitors voted for their favourites."),
    ("Season ticket renewal form", "Log in with your customer number; the deadline is at the end of June."),
    ("How we repainted our garden shed", "Sanding took a weekend; two coats of linseed paint did the rest."),
    ("Weekend forecast for the northern coast", "Gusty with showers, brighter towards Sunday evening."),
    ("Lost luggage: whom to call", "Keep the receipt from the counter and note the number of the tag."),
)


class SearchAnswer(NamedTuple):
    """What one call of a mock tool returned."""

    output: str
    success: bool
    time_cost_s: float


def search(seed: int, epoch: int, phase: str, asked: LeveledQuestion, tool: str) -> SearchAnswer:
    """Call a tool with a question and nothing else."""
    parts = "\x1f".join(map(str, (seed, epoch, phase, asked.text, tool)))
    chance = Random(int.from_bytes(hashlib.sha256(parts.encode()).digest()[:8]))
    profile = PROFILES[tool][asked.level]
    took = round(chance.uniform(0.2, 0.6), 3)
    if chance.random() >= profile.success:
        return SearchAnswer(BUSY, success=False, time_cost_s=took)
    is_relevant = chance.random() < profile.relevance
    sites, about = chance.sample(_SITES, 3), _ELSEWHERE
    if is_relevant:
        about = tuple((asked.text, text.format(question=asked.text)) for text in _ABOUT)
    rows = enumerate(zip(sites, chance.sample(about, 3), strict=True), start=1)
    output = "\n".join(f"{at}. {title} - {site}\n   {text}" for at, (site, (title, text)) in rows)
    return SearchAnswer(output, True, took)


PROMPT = "benchmark_choose_tool"

_NAME = re.compile(r"`([^`]+)`")
_RATE = re.compile(r"\b(?P<what>expect success|success|score)(?: rate)?:? (?P<percent>\d{1,3}(?:\.\d+)?) ?%")
_COUNTED = re.compile(r"(?P<good>\d+) of (?P<calls>\d+)")
_QUOTED = re.compile(r'"([^"]+)"')
_OWN_WEIGHT = 2.0
"""A tool's own rate weighs as much as this many calls, next to the counts of a kind of request."""


class GuidanceReader:
    """Chooses the tool that the Markdown rates best; a tool that it does not mention is as good as the average.

    It reads names in backticks, percentages after "success" and "score", and lines with a count ("9 of 11") that quote
    consecutive words of the question. It knows no other wording. Without any of that it chooses one at random.
    """

    name = "reader of the guidance"

    async def choose(self, question: str, tools: Sequence[str], guidance: str, seed: str) -> str:
        read = expected_success_rates(guidance, question)
        known = [read[tool] for tool in tools if tool in read]
        average = sum(known) / len(known) if known else 0.0
        best = max(read.get(tool, average) for tool in tools)
        chance = Random(hashlib.sha256(seed.encode()).digest())
        return chance.choice([tool for tool in tools if read.get(tool, average) >= best - 1e-9])


def expected_success_rates(text: str, question: str) -> dict[str, float]:
    """Return the share of good calls to expect from each tool that the Markdown mentions.

    It is what the text expects for this question; else the tool's own rate, with its counts for words of the question.
    """
    asked = f" {' '.join(words_as_written(question))} "
    expected: dict[str, float] = {}
    rates: dict[str, float] = {}
    counts: dict[str, list[tuple[int, int]]] = defaultdict(list)
    subject = ""
    for line in text.splitlines():
        named = _NAME.search(line)
        if named and (line.startswith("#") or line[:1].isdigit()):
            subject = named[1]
        if not subject:
            continue
        said = {rate["what"]: float(rate["percent"]) / 100 for rate in _RATE.finditer(line)}
        if "expect success" in said:
            expected.setdefault(subject, said["expect success"])
        elif said:
            rates.setdefault(subject, said["score"] if "score" in said else said["success"])
        quoted = [word.lower() for word in _QUOTED.findall(line)] if line.startswith("- ") else []
        if any(f" {word} " in asked or (not word.isascii() and word in question) for word in quoted) and (
            count := _COUNTED.search(line)
        ):
            counts[subject].append((int(count["good"]), int(count["calls"])))
    for tool in {**rates, **counts}:
        good = _OWN_WEIGHT * rates.get(tool, 0.5) + sum(good for good, _ in counts[tool])
        expected.setdefault(tool, good / (_OWN_WEIGHT + sum(calls for _, calls in counts[tool])))
    return expected


class _Choice(BaseAnswer):
    """What the prompt asks for."""

    tool: str


class ChatChooser:
    """Has the chat model choose, as an agent that has these tools would."""

    def __init__(self, model: ChatModel, timeout_s: float) -> None:
        self.name = model.name
        self._model, self._timeout_s = model, timeout_s

    async def choose(self, question: str, tools: Sequence[str], guidance: str, seed: str) -> str:
        """Return the name of a tool. Raises `ModelError`."""
        listed = "\n".join(f"- {tool}: {DESCRIPTION}" for tool in tools)
        untrusted = {"guidance": guidance or "(none)", "question": question}
        prompt = render(load_prompt(PROMPT), given={"tools": listed}, untrusted=untrusted)
        number = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:4]) >> 1
        effort = AskOptions(timeout_s=self._timeout_s, seed=number)
        answer, _ = await ask(self._model, prompt, _Choice, purpose=PROMPT, effort=effort)
        if isinstance(answer, ParseFailure):
            raise ModelAnswerInvalid(answer.reason)
        if answer.tool.strip() not in tools:
            raise ModelAnswerInvalid(f"it chose a tool that does not exist: {answer.tool[:60]!r}")
        return answer.tool.strip()
