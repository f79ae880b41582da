"""What a chat model adds: its verdicts compared with the truth, and the items that it distills, to be rated.

    python benchmarks/with_model.py --data FOLDER --answers FOLDER [--half unseen] [--most N] [--items ITEMS.md]

`--data` is a folder as benchmarks/judge_evidence.py reads it; tasks fall into the same halves. From each source, the
first N trajectories by the hash of their ids are used, counting only those that a model would be asked about. Nothing
is sent anywhere: each question is written to `asked/KEY.md` in the answers' folder, and its answer, the requested JSON,
is read from `answered/KEY.json`. So any model can be used, in any way, and its answers are kept. Run it, have the
questions answered, and run it again until none is open: what is distilled depends on the verdicts. The tables are
those of judge_evidence.py, for the evidence, for the model, and for both together as the product judges.
"""

import argparse
import asyncio
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from judge_evidence import HALVES, Judged, Known, files_of, read, report
from rating import Item, shown

from swarm_memory.schema.errors import InputError, ModelAnswerInvalid, ModelUnavailable
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.jobs.transcripts import is_worth_a_model
from swarm_memory.tools.distill.distill import distill_by_extraction
from swarm_memory.tools.distill.model import distill_by_model
from swarm_memory.tools.guard.redact import archivable
from swarm_memory.tools.judge.judge import judge_by_evidence, judge_by_model, weigh_model_verdict
from swarm_memory.tools.model.parse import ParseFailure, parse_object
from swarm_memory.tools.ports.models import ChatAnswer, ChatRequest, ChatUsage


class AnswersFromFiles:
    """A chat model whose answers are in files."""

    name = "files:answers"
    is_local = True

    def __init__(self, folder: Path) -> None:
        self._asked, self._answered = folder / "asked", folder / "answered"
        self.open = 0
        """Questions without an answer."""
        for each in (self._asked, self._answered):
            each.mkdir(parents=True, exist_ok=True)

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Return the answer in its file, or write the question. Raises `ModelUnavailable`, `ModelAnswerInvalid`."""
        key = hashlib.sha256(f"{request.system}\n{request.user}".encode()).hexdigest()[:16]
        answer = self._answered / f"{key}.json"
        if not answer.is_file():
            self.open += 1
            form = json.dumps(request.answer_schema)
            text = f"{request.system}\n\n# Schema of the answer\n\n{form}\n\n# Question\n\n{request.user}\n"
            (self._asked / f"{key}.md").write_text(text, encoding="utf-8")
            raise ModelUnavailable(f"{key} is not answered yet")
        data = parse_object(answer.read_text(encoding="utf-8"), request.answer_schema)
        if isinstance(data, ParseFailure):
            raise ModelAnswerInvalid(data.reason)
        return ChatAnswer(data=data, model=self.name, usage=ChatUsage(), latency_ms=0)


@dataclass(slots=True)
class Found:
    """The results for all trajectories."""

    by_evidence: list[Judged] = field(default_factory=list[Judged])
    by_model: list[Judged] = field(default_factory=list[Judged])
    together: list[Judged] = field(default_factory=list[Judged])
    items: list[Item] = field(default_factory=list[Item])
    refused: list[str] = field(default_factory=list[str])


def main() -> None:
    """Write the questions that are not answered yet; print the tables for those that are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--answers", type=Path, required=True)
    parser.add_argument("--half", choices=HALVES, default=HALVES[1])
    parser.add_argument("--most", type=int, default=10, metavar="N", help="trajectories of each source")
    parser.add_argument("--items", type=Path, help="where the items are written, in the form of rating.py")
    arguments = parser.parse_args()
    model, found = AnswersFromFiles(arguments.answers), Found()
    for trajectory, known in sample(arguments.data, arguments.half, arguments.most):
        asyncio.run(look(model, trajectory, known, found))
    print(f"{len(found.by_evidence)} trajectories, {model.open} questions without an answer")
    for name in ("by_evidence", "by_model", "together"):
        print(f"\n=== {name}")
        report([each for each in getattr(found, name) if each.known.success is not None])
    if arguments.items is not None:
        text = "\n".join(shown(number, item) for number, item in enumerate(found.items, 1))
        arguments.items.write_text(text, encoding="utf-8")
        print(f"\n{len(found.items)} items in {arguments.items}; refused: {len(found.refused)}")
        print("\n".join(found.refused))


def sample(data: Path, half: str, most: int) -> Iterator[tuple[Trajectory, Known]]:
    """Yield the sampled trajectories of a half, source by source."""
    settings = Settings()
    by_source: dict[str, list[tuple[Trajectory, Known]]] = defaultdict(list)
    for path in files_of(data):
        try:
            for trajectory, known in read(path):
                if known.half == half and is_worth_a_model(trajectory):
                    by_source[known.source].append((archivable(trajectory, settings), known))
        except InputError as error:
            print(f"{path.name}: passed over, {str(error).split(';')[0]}")
    for source, every in sorted(by_source.items()):
        taken = sorted(every, key=lambda each: hashlib.sha256(each[0].task_id.encode()).hexdigest())[:most]
        print(f"{source}: {len(taken)} of {len(every)} that are worth a model")
        yield from taken


async def look(model: AnswersFromFiles, trajectory: Trajectory, known: Known, found: Found) -> None:
    """Judge a trajectory in three ways, and distill from it by the combined verdict."""
    settings = Settings()
    by_evidence = judge_by_evidence(trajectory, settings)
    try:
        said = await judge_by_model(model, trajectory, settings)
    except ModelUnavailable:
        return
    judged = weigh_model_verdict(by_evidence, said)

    def beside(verdict: Verdict) -> Judged:
        return Judged(known, verdict.label, verdict.confidence)

    found.by_evidence.append(beside(by_evidence))
    found.by_model.append(beside(said))
    found.together.append(beside(judged))
    distilled = distill_by_extraction(trajectory, judged, settings)
    if judged.label != "Undecided":
        try:
            by_model, is_final = await distill_by_model(model, trajectory, judged, settings)
        except ModelUnavailable:
            return
        distilled = by_model if is_final else distilled
        if by_model.reason:
            found.refused.append(f"{trajectory.task_id}: {by_model.reason}")
    verdict = f"{judged.label} {judged.confidence}"
    way = f"{distilled.distiller}-{judged.label.lower()}"
    found.items += (Item(draft, trajectory, verdict, known.source, way) for draft in distilled.drafts)


if __name__ == "__main__":
    main()
