"""Retrieval datasets in one form, checked, cut and hashed: the sample, files, BEIR, LoCoMo and LongMemEval.

A question that cannot be asked is left out, and the reason is added to the list `skipped`. A file that does not have
the expected form, or of which nothing is left, raises `InputError`.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.resources import files
from itertools import groupby
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

from swarm_memory.schema.base import counted, digest
from swarm_memory.schema.benchmark import BenchmarkDocument, BenchmarkQuestion, Dataset, DatasetInfo
from swarm_memory.schema.errors import InputError
from swarm_memory.tools.benchmark.suite import checked
from swarm_memory.tools.text.cleaning import one_line

Split = Literal["all", "tune-hash", "held-hash"]
"""held-hash: the questions whose hash is odd; tune-hash: the others, on which parameters are chosen."""

CONVERSATIONS = ("locomo", "locomo-sessions")
"""In these the hash of a group puts all its questions into one split, as they are about one conversation."""

NAMED = 5
"""At most this many of the rows that are left out are named; the others are counted."""

Text = Annotated[str, Field(min_length=1)]


class ExternalModel(BaseModel):
    """Base of data that others publish: keys that are not used are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class _Line(ExternalModel):
    """A document of BEIR, or a query, which has no title."""

    id: str = Field(alias="_id", coerce_numbers_to_str=True, min_length=1)
    text: str
    title: str | None = None


class _File(BaseModel):
    """A file in the normalized form."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Text
    items: tuple[BenchmarkDocument, ...]
    questions: tuple[BenchmarkQuestion, ...]


_LINE, _FILE = TypeAdapter(_Line), TypeAdapter(_File)


def note_of(skipped: Sequence[str], what: str = "left out") -> list[str]:
    """Return a note on rows that are left out, naming the first of them; empty where there are none."""
    if not skipped:
        return []
    named = "; ".join(one_line(each, 200) for each in skipped[:NAMED])
    return [f"{counted(len(skipped), 'row')} {what}: {named}{'; …' if len(skipped) > NAMED else ''}"]


def parsed(text: str, where: str) -> Any:
    """Return the value of a JSON text. Raises `InputError` that names the line and column in `where`."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where}: this is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from error
    except RecursionError as error:
        raise InputError(f"{where}: it is nested too deeply") from error


def sample() -> Dataset:
    """Return the dataset that ships: notes of coding work and questions about them."""
    text = files("swarm_memory.tools.benchmark").joinpath("data", "sample.json").read_text(encoding="utf-8")
    return Dataset.model_validate_json(text)


def normalized(value: object, where: str, skipped: list[str]) -> Dataset:
    """Return the dataset of a file in the normalized form. Raises `InputError`."""
    file = checked(_FILE, value, where)
    return complete(Dataset(name=file.name, items=file.items, questions=file.questions), where, skipped)


def beir(name: str, texts: Mapping[str, str], skipped: list[str]) -> Dataset:
    """Return the dataset of a folder in BEIR's form. `texts` has, by their file names and in this order, the corpus,
    the queries and the judgements. Raises `InputError`.
    """
    (corpus, documents), (queries, asked), (qrels, judgements) = texts.items()
    items = tuple(
        BenchmarkDocument(id=each.id, content=content)
        for each in _lines(documents, corpus)
        if (content := "\n".join(part for part in (each.title, each.text) if part and part.strip()))
    )
    relevant = _judged(judgements, qrels)
    questions = tuple(
        BenchmarkQuestion(query=each.text, gold=tuple(relevant[each.id]))
        for each in _lines(asked, queries)
        if each.id in relevant and each.text
    )
    return complete(Dataset(name=name, items=items, questions=questions), qrels, skipped)


def _lines(text: str, name: str) -> Iterator[_Line]:
    for number, line in enumerate(text.split("\n"), start=1):
        place = f"{name}: line {number}"
        if line.strip():
            yield checked(_LINE, parsed(line, place), place)


def _judged(text: str, name: str) -> dict[str, list[str]]:
    """Return the relevant documents of each query, from lines of `query-id corpus-id score`, with tabs between."""
    relevant: dict[str, list[str]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        cells = line.split("\t")
        if not line.strip() or (number == 1 and not _is_number(cells[-1])):
            continue
        if len(cells) != 3 or not _is_number(cells[2]):
            raise InputError(f"{name}: line {number}: it must be query-id, corpus-id and score, separated by tabs")
        if float(cells[2]) > 0:
            relevant.setdefault(cells[0], []).append(cells[1])
    return relevant


def _is_number(text: str) -> bool:
    return text.strip().removeprefix("-").replace(".", "", 1).isdecimal()


def complete(dataset: Dataset, where: str, skipped: list[str]) -> Dataset:
    """Return the usable part of a dataset: unique ids in each group, and questions whose group has items and all gold.

    Raises `InputError` when no item or no question is left.
    """
    known: dict[tuple[str, str], BenchmarkDocument] = {}
    asked: list[BenchmarkQuestion] = []
    again = [item for item in dataset.items if known.setdefault((item.group, item.id), item) is not item]
    skipped += [f"{where}: id {item.id!r} already appears in group {item.group!r}" for item in again]
    groups = {group for group, _ in known}
    for question in dataset.questions:
        group = question.group
        if missing := [gold for gold in question.gold if (group, gold) not in known]:
            skipped.append(f"{where}: a question's gold {missing[0]!r} is not an item of group {group!r}")
        elif group not in groups:
            skipped.append(f"{where}: a question's group {group!r} has no items")
        else:
            asked.append(question)
    if not known or not asked:
        left = f"{where}: it has {len(known)} items and {len(asked)} questions that can be asked"
        raise InputError("; ".join((left, *note_of(skipped))))
    return Dataset(name=dataset.name, items=tuple(known.values()), questions=tuple(asked))


def cut(dataset: Dataset, *, split: Split, limit: int | None) -> Dataset:
    """Return the first `limit` questions of a split, with the items of their groups; the name tells the split.

    Raises `InputError` when no question is left.
    """
    questions: Sequence[BenchmarkQuestion] = dataset.questions
    if split != "all":
        questions = [each for each in questions if _is_held(dataset.name, each) == (split == "held-hash")]
    questions = questions[:limit]
    if not questions:
        raise InputError(f"{dataset.name}: no questions are left with split {split}, limit {limit}")
    asked = {each.group for each in questions}
    items = tuple(item for item in dataset.items if item.group in asked)
    name = dataset.name if split == "all" else f"{dataset.name}-{split}"
    return Dataset(name=name, items=items, questions=tuple(questions))


def _is_held(name: str, question: BenchmarkQuestion) -> bool:
    hashed = question.group if name in CONVERSATIONS else question.query
    return int(hashlib.sha256(hashed.encode("utf-8", "surrogatepass")).hexdigest()[:8], 16) % 2 == 1


def info_of(dataset: Dataset) -> DatasetInfo:
    """Return the name, the hash and the size of a dataset."""
    content: dict[str, Any] = dataset.model_dump(mode="json", exclude={"name"})
    return DatasetInfo(
        name=dataset.name, hash=digest(content), items=len(dataset.items), questions=len(dataset.questions)
    )


def by_group(dataset: Dataset) -> dict[str, tuple[BenchmarkDocument, ...]]:
    """Return the items of each group in their order."""
    ordered = sorted(dataset.items, key=lambda item: item.group)
    return {group: tuple(items) for group, items in groupby(ordered, key=lambda item: item.group)}


LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
"""As the paper's code numbers them (Maharana et al. 2024)."""

ABSTENTION = "_abs"
"""Suffix of the id of a LongMemEval question that has no answer in its sessions."""

_SESSION = re.compile(r"session_(\d+)")
_EVIDENCE = re.compile(r"D(\d+):(\d+)")


class _Turn(ExternalModel):
    speaker: str
    dia_id: Text
    text: str
    blip_caption: str | None = None

    @property
    def line(self) -> str:
        return f"{self.speaker}: {self.text}" + (f" {self.blip_caption}" if self.blip_caption else "")


class _Asked(ExternalModel):
    question: Text
    answer: str | None = Field(default=None, coerce_numbers_to_str=True)
    evidence: tuple[str, ...] = ()
    category: int = 0


class _Conversation(ExternalModel):
    conversation: dict[str, JsonValue]
    qa: tuple[_Asked, ...]


class _Said(ExternalModel):
    role: str
    content: str


class _Record(ExternalModel):
    question_id: str = Field(min_length=1, max_length=400)
    question_type: str
    question: Text
    answer: str = Field(coerce_numbers_to_str=True)
    question_date: str
    haystack_session_ids: tuple[Text, ...]
    haystack_dates: tuple[str, ...]
    haystack_sessions: tuple[tuple[_Said, ...], ...]
    answer_session_ids: tuple[str, ...]


_TURNS, _CONVERSATIONS = TypeAdapter(tuple[_Turn, ...]), TypeAdapter(tuple[_Conversation, ...])
_RECORDS = TypeAdapter(tuple[_Record, ...])


def locomo(value: object, where: str, skipped: list[str], *, by_session: bool = False) -> Dataset:
    """Return LoCoMo: each turn (`by_session`: session) is an item, each conversation a group. Raises `InputError`.

    A turn's document is its speaker, its text and the caption of its picture. Questions whose evidence names no turn
    that exists are left out, as everybody does who publishes figures for it.
    """
    items: list[BenchmarkDocument] = []
    questions: list[BenchmarkQuestion] = []
    for at, talk in enumerate(checked(_CONVERSATIONS, value, where)):
        group = f"conversation-{at + 1}"
        sessions = list(_sessions_of(talk, f"{where}[{at}].conversation"))
        items += _items(group, sessions, by_session=by_session)
        turns = {turn.dia_id for _, _, said in sessions for turn in said}
        for number, asked in enumerate(talk.qa):
            named = ((int(session), int(turn)) for session, turn in _EVIDENCE.findall(" ".join(asked.evidence)))
            there = [(session, turn) for session, turn in named if f"D{session}:{turn}" in turns]
            gold = dict.fromkeys(f"D{session}" if by_session else f"D{session}:{turn}" for session, turn in there)
            if not gold:
                skipped.append(f"{where}[{at}].qa[{number}].evidence: it names nothing that was said")
                continue
            category = LOCOMO_CATEGORIES.get(asked.category, str(asked.category))
            questions.append(
                BenchmarkQuestion(
                    query=asked.question, gold=tuple(gold), group=group, answer=asked.answer, category=category
                )
            )
    name = "locomo-sessions" if by_session else "locomo"
    return complete(Dataset(name=name, items=tuple(items), questions=tuple(questions)), where, skipped)


_Session = tuple[int, datetime | None, tuple[_Turn, ...]]


def _items(group: str, sessions: Iterable[_Session], *, by_session: bool) -> Iterator[BenchmarkDocument]:
    for number, time, turns in sessions:
        if by_session and turns:
            yield BenchmarkDocument(
                id=f"D{number}", content="\n".join(turn.line for turn in turns), group=group, time=time
            )
        elif not by_session:
            for turn in turns:
                yield BenchmarkDocument(id=turn.dia_id, content=turn.line, group=group, part=f"D{number}", time=time)


def _sessions_of(record: _Conversation, where: str) -> Iterator[_Session]:
    numbers = [int(found[1]) for found in map(_SESSION.fullmatch, record.conversation) if found]
    for number in sorted(numbers):
        key, time = f"session_{number}", None
        moment = record.conversation.get(f"{key}_date_time")
        if isinstance(moment, str):
            time = _moment(moment, "%I:%M %p on %d %B, %Y", f"{where}.{key}_date_time")
        yield number, time, checked(_TURNS, record.conversation[key], f"{where}.{key}")


def longmemeval(value: object, where: str, skipped: list[str]) -> Dataset:
    """Return LongMemEval: each session an item, each question's haystack a group. Raises `InputError`.

    Questions without an answer (`_abs`) have no gold: they count for answers, not for retrieval.
    """
    items: list[BenchmarkDocument] = []
    questions: list[BenchmarkQuestion] = []
    for at, record in enumerate(checked(_RECORDS, value, where)):
        has_answer = not record.question_id.endswith(ABSTENTION)
        items += _haystack(record, f"{where}[{at}]")
        questions.append(
            BenchmarkQuestion(
                query=record.question,
                gold=tuple(dict.fromkeys(record.answer_session_ids)) if has_answer else (),
                group=record.question_id,
                answer=record.answer,
                category=record.question_type if has_answer else "abstention",
                now=_published(record.question_date, f"{where}[{at}].question_date"),
            )
        )
    return complete(Dataset(name="longmemeval", items=tuple(items), questions=tuple(questions)), where, skipped)


def _haystack(record: _Record, where: str) -> Iterator[BenchmarkDocument]:
    counts = {len(record.haystack_session_ids), len(record.haystack_dates), len(record.haystack_sessions)}
    if len(counts) > 1:
        raise InputError(f"{where}: haystack_session_ids, haystack_dates and haystack_sessions differ in length")
    for at, (session_id, date) in enumerate(zip(record.haystack_session_ids, record.haystack_dates, strict=True)):
        text = "\n".join(f"{turn.role}: {turn.content}" for turn in record.haystack_sessions[at])
        if text.strip():
            time = _published(date, f"{where}.haystack_dates[{at}]")
            yield BenchmarkDocument(id=session_id, content=text, group=record.question_id, time=time)


def _published(text: str, where: str) -> datetime:
    return _moment(re.sub(r"\s*\([A-Za-z]+\)\s*", " ", text).strip(), "%Y/%m/%d %H:%M", where)


def _moment(text: str, form: str, where: str) -> datetime:
    try:
        return datetime.strptime(text.strip(), form).replace(tzinfo=UTC)
    except ValueError as error:
        raise InputError(f"{where}: {text[:40]!r} is not a date of the form {form}") from error
