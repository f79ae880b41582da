"""LoCoMo and LongMemEval as published, read into the one form of datasets."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from pydantic import Field, JsonValue, TypeAdapter

from swarm_memory.schema.benchmark import BenchmarkItem, BenchmarkQuestion, Dataset
from swarm_memory.schema.errors import InputError
from swarm_memory.tools.benchmark.retrieval.datasets import Published, complete
from swarm_memory.tools.benchmark.suite import checked

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
