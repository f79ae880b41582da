"""How good answers from what was found are: retrieve, let the chat model answer, let it grade by the reference."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from swarm_memory.schema.benchmark import BenchmarkQuestion, Dataset, Figure, Table
from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.tools.benchmark.figures import Column, figures, table
from swarm_memory.tools.benchmark.systems import MemorySystem
from swarm_memory.tools.credit.intervals import Interval, wilson
from swarm_memory.tools.model.ask import Answered, AnyAnswer, Effort, ask
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import load_prompt, render
from swarm_memory.tools.ports.models import ChatModel

NOTES = 10
"""So many items the model is shown."""

OnAsked = Callable[[str, int], Awaitable[None]]
"""Is told the name of a system and how many questions it was asked by now."""

_MAX_NOTE_CHARS = 4_000
_TIMEOUT_S = 60.0


class Answer(Answered):
    """What the model answers."""

    answer: str


class Grade(Answered):
    """What it says of an answer."""

    right: bool
    reason: str


@dataclass(slots=True)
class Graded:
    """The grades of one system's answers until now; the same chat model answers and grades."""

    system: str
    chat: ChatModel
    seed: int
    right: int = 0
    graded: int = 0
    unusable: int = 0
    """Questions whose answer or grade could not be read: they count neither as right nor as wrong."""
    stopped: str | None = None
    """Why no more was asked."""
    models: set[str] = field(default_factory=set[str])

    def figures(self) -> tuple[Figure, ...]:
        """Return the accuracy with its score interval; nothing when no grade came."""
        return tuple(figures(self.system, _COLUMNS, self))

    @property
    def accuracy(self) -> Interval | None:
        return wilson(self.right, self.graded) if self.graded else None

    async def ask_all(self, system: MemorySystem, dataset: Dataset, on_asked: OnAsked) -> None:
        """Have every question answered and graded that has a reference, until the model is not there any more."""
        texts = {(item.group, item.id): item for item in dataset.items}
        for number, question in enumerate(dataset.questions, start=1):
            if question.answer is None:
                continue
            found = await system.retrieve(question, NOTES)
            items = [texts[question.group, each] for each in found]
            notes = [f"({item.time:%Y-%m-%d}) {item.content}" if item.time else item.content for item in items]
            try:
                await self._ask(question, question.answer, [note[:_MAX_NOTE_CHARS] for note in notes])
            except ModelUnavailable as error:
                self.stopped = str(error)
                return
            await on_asked(f"{self.system}, answers", number)

    async def _ask(self, question: BenchmarkQuestion, reference: str, notes: list[str]) -> None:
        shown = "\n\n".join(notes) or "(nothing was found)"
        answer = await self._asked("benchmark_answer", {"notes": shown, "question": question.query}, Answer)
        if answer is None:
            return
        given = {"question": question.query, "reference": reference, "answer": answer.answer}
        grade = await self._asked("benchmark_grade", given, Grade)
        if grade is not None:
            self.graded += 1
            self.right += grade.right

    async def _asked(self, prompt: str, untrusted: Mapping[str, str], form: type[AnyAnswer]) -> AnyAnswer | None:
        rendered = render(load_prompt(prompt), given={}, untrusted=untrusted)
        effort = Effort(timeout_s=_TIMEOUT_S, seed=self.seed)
        got, model = await ask(self.chat, rendered, form, purpose="benchmark", effort=effort)
        self.models.add(model)
        if isinstance(got, Unparsed):
            self.unusable += 1
            return None
        return got


_COLUMNS: tuple[Column[Graded], ...] = (
    Column("system", lambda each: each.system),
    Column("graded", lambda each: each.graded),
    Column("right, %", lambda each: each.accuracy and 100 * each.accuracy.value, ".1f"),
    Column("unusable", lambda each: each.unusable),
    Column("model", lambda each: ", ".join(sorted(each.models))),
    Column("", lambda each: each.accuracy, measure="answer_accuracy", n=lambda each: each.graded, better="higher"),
)


def answer_table(graded: list[Graded]) -> Table:
    """Return the table of all systems."""
    note = "the same chat model answers and grades: figures of other models cannot be compared"
    return table("Answers", _COLUMNS, graded, note)
