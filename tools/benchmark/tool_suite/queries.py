"""The questions of the tool memory benchmark: 20 of each level to train on and 20 to test on. It opens no path."""

import json
from importlib.resources import files
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from swarm_memory.schema.base import digest
from swarm_memory.schema.benchmark import DatasetInfo
from swarm_memory.schema.errors import InputError
from swarm_memory.tools.benchmark.datasets import checked
from swarm_memory.tools.benchmark.tool_suite.profile import LEVELS, Level

Questions = tuple[str, ...]


class LevelledQuestions(BaseModel):
    """Questions by how much an answer takes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    simple: Questions = Field(min_length=1)
    moderate: Questions = Field(min_length=1)
    complex: Questions = Field(min_length=1)


class QuestionFile(BaseModel):
    """What is trained on and what is tested on; the form is that of ReMe's `query.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: LevelledQuestions
    test: LevelledQuestions


class Asked(NamedTuple):
    """One question and its level, which is told to nobody but the mock tools."""

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
    text = files("swarm_memory.tools.benchmark.tool_suite").joinpath("queries.json").read_text(encoding="utf-8")
    return QuestionFile.model_validate_json(text)


def read_questions(text: str, where: str) -> QuestionFile:
    """Return the questions of a file. Raises `InputError` that says what is wrong and where."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: this is no JSON: {error}") from error
    found = checked(TypeAdapter(QuestionFile), value, where)
    both = {each for level in LEVELS for each in getattr(found.train, level)}
    shared = next((each for level in LEVELS for each in getattr(found.test, level) if each in both), None)
    if shared is not None:
        raise InputError(f"{where}: a question of train is in test too: {shared[:80]!r}")
    return found


def chosen(found: QuestionFile, name: str, per_level: int | None) -> QuestionSet:
    """Return the first questions of each level, at most `per_level`, as they are asked."""

    def flat(part: LevelledQuestions) -> tuple[Asked, ...]:
        return tuple(Asked(each, level) for level in LEVELS for each in getattr(part, level)[:per_level])

    return QuestionSet(name, flat(found.train), flat(found.test))
