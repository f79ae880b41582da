"""Datasets of retrieval in one form (the sample, files, BEIR), checked, cut and hashed. It opens no path."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from swarm_memory.schema.base import digest
from swarm_memory.schema.benchmark import BenchmarkItem, BenchmarkQuestion, Dataset, DatasetInfo
from swarm_memory.schema.errors import InputError

Split = Literal["all", "tune", "held"]
HELD_EVERY = 10
"""Every tenth question, in the order of the file, is held; parameters are chosen on the others."""

T = TypeVar("T")


class Published(BaseModel):
    """Base of what others publish: keys that are not used are let pass."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Document(Published):
    id: str = Field(alias="_id", coerce_numbers_to_str=True)
    title: str | None = None
    text: str


class _Query(Published):
    id: str = Field(alias="_id", coerce_numbers_to_str=True)
    text: str


_DOCUMENT, _QUERY = TypeAdapter(_Document), TypeAdapter(_Query)


def checked(form: TypeAdapter[T], value: object, where: str) -> T:
    """Return a value in its form. Raises `InputError` that names the place: `where`, then the path inside."""
    try:
        return form.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        inside = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
        raise InputError(f"{where}{inside}: {first['msg']}") from error


def sample() -> Dataset:
    """Return the dataset that ships: notes of coding work and questions about them."""
    text = files("swarm_memory.tools.benchmark.data").joinpath("sample.json").read_text(encoding="utf-8")
    return complete(Dataset.model_validate_json(text), "sample")


def normalized(value: object, where: str) -> Dataset:
    """Return the dataset of a file in the normalized form. Raises `InputError`."""
    return complete(checked(TypeAdapter(Dataset), value, where), where)


def beir(
    name: str, corpus: Iterable[object], queries: Iterable[object], judgements: Iterable[str], where: Mapping[str, str]
) -> Dataset:
    """Return the dataset of a folder in BEIR's form; `where` names its three files. Raises `InputError`."""
    documents = [checked(_DOCUMENT, row, f"{where['corpus']}: line {at}") for at, row in enumerate(corpus, start=1)]
    asked = [checked(_QUERY, row, f"{where['queries']}: line {at}") for at, row in enumerate(queries, start=1)]
    relevant = _judged(judgements, where["qrels"])
    items = tuple(BenchmarkItem(id=each.id, content=_text(each)) for each in documents if _text(each))
    questions = tuple(
        BenchmarkQuestion(query=each.text, gold=tuple(relevant[each.id])) for each in asked if each.id in relevant
    )
    return complete(Dataset(name=name, items=items, questions=questions), where["qrels"])


def _text(document: _Document) -> str:
    return "\n".join(part for part in (document.title, document.text) if part and part.strip())


def _judged(lines: Iterable[str], where: str) -> dict[str, list[str]]:
    """Return the relevant documents of each query, from lines of `query-id corpus-id score`, with tabs between."""
    relevant: dict[str, list[str]] = {}
    for number, line in enumerate(lines, start=1):
        cells = line.split("\t")
        if not line.strip() or (number == 1 and not _is_number(cells[-1])):
            continue
        if len(cells) != 3 or not _is_number(cells[2]):
            raise InputError(f"{where}: line {number}: it must be query-id, corpus-id and score, with tabs between")
        if float(cells[2]) > 0:
            relevant.setdefault(cells[0], []).append(cells[1])
    return relevant


def _is_number(text: str) -> bool:
    return text.strip().removeprefix("-").replace(".", "", 1).isdecimal()


def complete(dataset: Dataset, where: str) -> Dataset:
    """Return the dataset when it can be asked. Raises `InputError` for an id twice, and for a gold that is nowhere."""
    if not dataset.items or not dataset.questions:
        raise InputError(f"{where}: it has {len(dataset.items)} items and {len(dataset.questions)} questions")
    counts = Counter((item.group, item.id) for item in dataset.items)
    (group, item_id), times = counts.most_common(1)[0]
    if times > 1:
        raise InputError(f"{where}: id {item_id!r} stands {times} times in group {group!r}")
    for at, question in enumerate(dataset.questions):
        missing = [gold for gold in question.gold if (question.group, gold) not in counts]
        if missing:
            raise InputError(f"{where}: questions[{at}].gold: {missing[0]!r} is no item of group {question.group!r}")
    return dataset


def cut(dataset: Dataset, *, split: Split, limit: int | None, groups: tuple[int, int] | None) -> Dataset:
    """Return what is asked of the dataset: of a range of groups (1-based, as they first come), a split, the first few.

    Items of groups without a question left are dropped.
    """
    questions: Sequence[BenchmarkQuestion] = dataset.questions
    if groups is not None:
        first, last = groups
        names = list(dict.fromkeys(item.group for item in dataset.items))[first - 1 : last]
        questions = [each for each in questions if each.group in set(names)]
    if split != "all":
        held = split == "held"
        questions = [each for at, each in enumerate(questions, start=1) if (at % HELD_EVERY == 0) == held]
    questions = questions[:limit]
    if not questions:
        raise InputError(f"{dataset.name}: no question is left of split {split}, groups {groups}, limit {limit}")
    asked = {each.group for each in questions}
    items = tuple(item for item in dataset.items if item.group in asked)
    return Dataset(name=dataset.name, items=items, questions=tuple(questions))


def described(dataset: Dataset) -> DatasetInfo:
    """Return the name, the hash and the size of a dataset."""
    content: dict[str, Any] = dataset.model_dump(mode="json", exclude={"name"})
    return DatasetInfo(
        name=dataset.name, hash=digest(content), items=len(dataset.items), questions=len(dataset.questions)
    )


def by_group(dataset: Dataset) -> dict[str, tuple[BenchmarkItem, ...]]:
    """Return the items of each group in their order."""
    ordered = sorted(dataset.items, key=lambda item: item.group)
    return {group: tuple(items) for group, items in groupby(ordered, key=lambda item: item.group)}
