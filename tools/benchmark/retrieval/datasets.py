"""Datasets of retrieval in one form, checked, cut and hashed: the sample, files, BEIR, LoCoMo and LongMemEval."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from itertools import groupby
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from swarm_memory.schema.base import digest
from swarm_memory.schema.benchmark import BenchmarkItem, BenchmarkQuestion, Dataset, DatasetInfo
from swarm_memory.schema.errors import InputError
from swarm_memory.tools.benchmark.suite import checked

Split = Literal["all", "tune", "held"]
"""held: the questions whose hash is odd; tune: the others, on which parameters are chosen."""

CONVERSATIONS = ("locomo", "locomo-sessions")
"""Of these a whole group is held or not: its questions are about one conversation."""

FOREIGN = "foreign"
"""The category of questions that have nothing to do with the items."""


class Published(BaseModel):
    """Base of what others publish: keys that are not used are let pass."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Line(Published):
    """A document of BEIR, or a query, which has no title."""

    id: str = Field(alias="_id", coerce_numbers_to_str=True)
    text: str
    title: str | None = None


_LINE = TypeAdapter(_Line)


def sample() -> Dataset:
    """Return the dataset that ships: notes of coding work and questions about them."""
    text = files("swarm_memory.tools.benchmark").joinpath("data", "sample.json").read_text(encoding="utf-8")
    return complete(Dataset.model_validate_json(text), "sample")


def normalized(value: object, where: str) -> Dataset:
    """Return the dataset of a file in the normalized form. Raises `InputError`."""
    return complete(checked(TypeAdapter(Dataset), value, where), where)


def beir(
    name: str, corpus: Iterable[object], queries: Iterable[object], judgements: Iterable[str], where: Mapping[str, str]
) -> Dataset:
    """Return the dataset of a folder in BEIR's form; `where` names its three files. Raises `InputError`."""
    documents = [checked(_LINE, row, f"{where['corpus']}: line {at}") for at, row in enumerate(corpus, start=1)]
    asked = [checked(_LINE, row, f"{where['queries']}: line {at}") for at, row in enumerate(queries, start=1)]
    relevant = _judged(judgements, where["qrels"])
    items = tuple(
        BenchmarkItem(id=each.id, content=content)
        for each in documents
        if (content := "\n".join(part for part in (each.title, each.text) if part and part.strip()))
    )
    questions = tuple(
        BenchmarkQuestion(query=each.text, gold=tuple(relevant[each.id])) for each in asked if each.id in relevant
    )
    return complete(Dataset(name=name, items=items, questions=questions), where["qrels"])


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


def cut(dataset: Dataset, *, split: Split, limit: int | None) -> Dataset:
    """Return the first `limit` questions of a split, with the items of their groups. Raises `InputError` for none."""
    questions: Sequence[BenchmarkQuestion] = dataset.questions
    if split != "all":
        whole = dataset.name in CONVERSATIONS
        questions = [each for each in questions if _is_held(each.group if whole else each.query) == (split == "held")]
    questions = questions[:limit]
    if not questions:
        raise InputError(f"{dataset.name}: no question is left of split {split}, limit {limit}")
    asked = {each.group for each in questions}
    items = tuple(item for item in dataset.items if item.group in asked)
    return Dataset(name=dataset.name, items=items, questions=tuple(questions))


def _is_held(name: str) -> bool:
    return int(hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8], 16) % 2 == 1


def with_foreign(dataset: Dataset, queries: Sequence[str]) -> Dataset:
    """Return the dataset with questions that nothing in any of its groups answers, given out to the groups in turn."""
    groups = list(by_group(dataset))
    asked = (
        BenchmarkQuestion(query=query, group=groups[at % len(groups)], category=FOREIGN)
        for at, query in enumerate(queries)
    )
    return dataset.model_copy(update={"questions": (*dataset.questions, *asked)})


def info_of(dataset: Dataset) -> DatasetInfo:
    """Return the name, the hash and the size of a dataset."""
    content: dict[str, Any] = dataset.model_dump(mode="json", exclude={"name"})
    return DatasetInfo(
        name=dataset.name, hash=digest(content), items=len(dataset.items), questions=len(dataset.questions)
    )


def by_group(dataset: Dataset) -> dict[str, tuple[BenchmarkItem, ...]]:
    """Return the items of each group in their order."""
    ordered = sorted(dataset.items, key=lambda item: item.group)
    return {group: tuple(items) for group, items in groupby(ordered, key=lambda item: item.group)}


LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
"""As the paper's code numbers them (Maharana et al. 2024)."""

ABSTENTION = "_abs"
"""The end of a LongMemEval question's id that has no answer in its sessions."""

_SESSION = re.compile(r"session_(\d+)")
_EVIDENCE = re.compile(r"D(\d+):(\d+)")


class _Turn(Published):
    speaker: str
    dia_id: str
    text: str
    blip_caption: str | None = None

    @property
    def line(self) -> str:
        return f"{self.speaker}: {self.text}" + (f" {self.blip_caption}" if self.blip_caption else "")


class _Asked(Published):
    question: str
    answer: str | None = Field(default=None, coerce_numbers_to_str=True)
    evidence: tuple[str, ...] = ()
    category: int = 0


class _Conversation(Published):
    conversation: dict[str, JsonValue]
    qa: tuple[_Asked, ...]


class _Said(Published):
    role: str
    content: str


class _Record(Published):
    question_id: str = Field(min_length=1)
    question_type: str
    question: str
    answer: str = Field(coerce_numbers_to_str=True)
    question_date: str
    haystack_session_ids: tuple[str, ...]
    haystack_dates: tuple[str, ...]
    haystack_sessions: tuple[tuple[_Said, ...], ...]
    answer_session_ids: tuple[str, ...]


_TURNS, _CONVERSATIONS = TypeAdapter(tuple[_Turn, ...]), TypeAdapter(tuple[_Conversation, ...])
_RECORDS = TypeAdapter(tuple[_Record, ...])


def locomo(value: object, where: str, *, by_session: bool = False) -> Dataset:
    """Return LoCoMo: each turn, or all turns of a session, an item, each conversation a group. Raises `InputError`.

    A turn's document is speaker, text and the caption of its picture. Questions whose evidence names no turn that
    exists are left out, as everybody does who publishes figures for it.
    """
    items: list[BenchmarkItem] = []
    questions: list[BenchmarkQuestion] = []
    for number, record in enumerate(checked(_CONVERSATIONS, value, where)):
        group = f"conversation-{number + 1}"
        sessions = list(_sessions_of(record, f"{where}[{number}].conversation"))
        own = list(_items(group, sessions, by_session=by_session))
        turns = {turn.dia_id for _, _, said in sessions for turn in said}
        known = {item.id for item in own}
        for asked in record.qa:
            named = ((int(session), int(turn)) for session, turn in _EVIDENCE.findall(" ".join(asked.evidence)))
            there = [(session, turn) for session, turn in named if f"D{session}:{turn}" in turns]
            ids = dict.fromkeys(f"D{session}" if by_session else f"D{session}:{turn}" for session, turn in there)
            gold = tuple(each for each in ids if each in known)
            if gold:
                category = LOCOMO_CATEGORIES.get(asked.category, str(asked.category))
                questions.append(
                    BenchmarkQuestion(
                        query=asked.question, gold=gold, group=group, answer=asked.answer, category=category
                    )
                )
        items += own
    name = "locomo-sessions" if by_session else "locomo"
    return complete(Dataset(name=name, items=tuple(items), questions=tuple(questions)), where)


_Session = tuple[int, datetime | None, tuple[_Turn, ...]]


def _items(group: str, sessions: Iterable[_Session], *, by_session: bool) -> Iterator[BenchmarkItem]:
    for number, time, turns in sessions:
        if by_session and turns:
            yield BenchmarkItem(id=f"D{number}", content="\n".join(turn.line for turn in turns), group=group, time=time)
        elif not by_session:
            for turn in turns:
                yield BenchmarkItem(id=turn.dia_id, content=turn.line, group=group, part=f"D{number}", time=time)


def _sessions_of(record: _Conversation, where: str) -> Iterator[_Session]:
    numbers = [int(found[1]) for found in map(_SESSION.fullmatch, record.conversation) if found]
    for number in sorted(numbers):
        key = f"session_{number}"
        moment = record.conversation.get(f"{key}_date_time")
        time = _moment(moment, "%I:%M %p on %d %B, %Y", f"{where}.{key}_date_time") if isinstance(moment, str) else None
        yield number, time, checked(_TURNS, record.conversation[key], f"{where}.{key}")


def longmemeval(value: object, where: str) -> Dataset:
    """Return LongMemEval: each session an item, each question's haystack a group. Raises `InputError`.

    Questions without an answer (`_abs`) have no gold: they count for answers, not for retrieval.
    """
    items: list[BenchmarkItem] = []
    questions: list[BenchmarkQuestion] = []
    for number, record in enumerate(checked(_RECORDS, value, where)):
        own = list(_haystack(record, f"{where}[{number}]"))
        kept = {item.id for item in own}
        items += own
        has_answer = not record.question_id.endswith(ABSTENTION)
        questions.append(
            BenchmarkQuestion(
                query=record.question,
                gold=tuple(each for each in dict.fromkeys(record.answer_session_ids) if each in kept and has_answer),
                group=record.question_id,
                answer=record.answer,
                category=record.question_type if has_answer else "abstention",
                now=_published(record.question_date, f"{where}[{number}].question_date"),
            )
        )
    return complete(Dataset(name="longmemeval", items=tuple(items), questions=tuple(questions)), where)


def _haystack(record: _Record, where: str) -> Iterator[BenchmarkItem]:
    counts = {len(record.haystack_session_ids), len(record.haystack_dates), len(record.haystack_sessions)}
    if len(counts) > 1:
        raise InputError(f"{where}: haystack_session_ids, haystack_dates and haystack_sessions differ in length")
    for at, (session_id, date) in enumerate(zip(record.haystack_session_ids, record.haystack_dates, strict=True)):
        text = "\n".join(f"{turn.role}: {turn.content}" for turn in record.haystack_sessions[at])
        if text.strip():
            time = _published(date, f"{where}.haystack_dates[{at}]")
            yield BenchmarkItem(id=session_id, content=text, group=record.question_id, time=time)


def _published(text: str, where: str) -> datetime:
    return _moment(re.sub(r"\s*\([A-Za-z]+\)\s*", " ", text).strip(), "%Y/%m/%d %H:%M", where)


def _moment(text: str, form: str, where: str) -> datetime:
    try:
        return datetime.strptime(text.strip(), form).replace(tzinfo=UTC)
    except ValueError as error:
        raise InputError(f"{where}: {text[:40]!r} is no date of the form {form}") from error
