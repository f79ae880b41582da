"""The questions and three mock search tools, whose success and fit are random for each call by itself.

The generator of a call is seeded by the hash of the run's seed, the epoch, the phase, the question and the tool: no
call has any bearing on another one, and a run can be made again. Outputs look like those of a search and never speak
of quality.
"""

import hashlib
from importlib.resources import files
from random import Random
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from swarm_memory.schema.base import digest
from swarm_memory.schema.benchmark import DatasetInfo

Level = Literal["simple", "moderate", "complex"]
LEVELS: tuple[Level, ...] = ("simple", "moderate", "complex")

TOOLS = ("SearchToolA", "SearchToolB", "SearchToolC")
DESCRIPTION = "Searches the web for a question and returns the results as text."
"""Of every one of them: a description must not say what is to be found out."""


class Profile(NamedTuple):
    """Probabilities of one call."""

    success: float
    """It answers, and does not say that it is busy."""
    relevance: float
    """An answer is about the question."""

    @property
    def useful(self) -> float:
        """It answers, and what it says is about the question."""
        return self.success * self.relevance


PROFILES: dict[str, dict[Level, Profile]] = {
    "SearchToolA": {"simple": Profile(0.9, 0.9), "moderate": Profile(0.2, 0.2), "complex": Profile(0.5, 0.5)},
    "SearchToolB": {"simple": Profile(0.3, 0.3), "moderate": Profile(0.9, 0.9), "complex": Profile(0.5, 0.5)},
    "SearchToolC": {"simple": Profile(0.3, 0.3), "moderate": Profile(0.4, 0.4), "complex": Profile(0.9, 0.9)},
}


def best_tool(level: Level) -> str:
    """Return the tool that is most often of use at a level."""
    return max(TOOLS, key=lambda tool: PROFILES[tool][level].useful)


def expected(level: Level, tool: str | None = None) -> float:
    """Return how often a tool is of use at a level; without one, a tool that is chosen blindly."""
    if tool is not None:
        return PROFILES[tool][level].useful
    return sum(PROFILES[each][level].useful for each in TOOLS) / len(TOOLS)


Questions = tuple[str, ...]


class LevelledQuestions(BaseModel):
    """Questions by how much an answer takes."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    simple: Questions = Field(min_length=1)
    moderate: Questions = Field(min_length=1)
    complex: Questions = Field(min_length=1)


class QuestionFile(BaseModel):
    """What is trained on and what is tested on; the form is that of ReMe's `query.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    train: LevelledQuestions
    test: LevelledQuestions


class Asked(NamedTuple):
    """One question and its level, which nobody knows but the mock tools."""

    text: str
    level: Level


class QuestionSet(NamedTuple):
    """The questions of a run."""

    name: str
    train: tuple[Asked, ...]
    test: tuple[Asked, ...]

    @property
    def info(self) -> DatasetInfo:
        """What the run says of its data."""
        hashed = digest([[list(each) for each in part] for part in (self.train, self.test)])
        return DatasetInfo(name=self.name, hash=hashed, items=len(self.train), questions=len(self.test))


def own_questions() -> QuestionFile:
    """Return the questions that ship."""
    text = files("swarm_memory.tools.benchmark").joinpath("data", "tool_questions.json").read_text(encoding="utf-8")
    return QuestionFile.model_validate_json(text)


def chosen(found: QuestionFile, name: str, per_level: int | None) -> QuestionSet:
    """Return the first questions of each level, at most `per_level`, as they are asked."""

    def flat(part: LevelledQuestions) -> tuple[Asked, ...]:
        return tuple(Asked(each, level) for level in LEVELS for each in getattr(part, level)[:per_level])

    return QuestionSet(name, flat(found.train), flat(found.test))


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
    """What one call of a mock tool gave."""

    output: str
    success: bool
    relevant: bool
    """What nobody is shown: whether it succeeded, and its results are about the question."""
    time_cost_s: float


def search(seed: int, epoch: int, phase: str, asked: Asked, tool: str) -> SearchAnswer:
    """Call a tool with a question and nothing else."""
    chance = Random(_seed(seed, epoch, phase, asked.text, tool))
    profile = PROFILES[tool][asked.level]
    took = round(chance.uniform(0.2, 0.6), 3)
    if chance.random() >= profile.success:
        return SearchAnswer(BUSY, success=False, relevant=False, time_cost_s=took)
    relevant = chance.random() < profile.relevance
    return SearchAnswer(_results(chance, asked.text if relevant else None), True, relevant, took)


def _results(chance: Random, question: str | None) -> str:
    """Return three results: about the question, or about other things."""
    sites = chance.sample(_SITES, 3)
    if question is None:
        found = list(chance.sample(_ELSEWHERE, 3))
    else:
        found = [(question, text.format(question=question)) for text in chance.sample(_ABOUT, 3)]
    rows = zip(sites, found, strict=True)
    return "\n".join(f"{at}. {title} - {site}\n   {text}" for at, (site, (title, text)) in enumerate(rows, start=1))


def _seed(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()[:8])
