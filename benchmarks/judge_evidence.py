"""How well judging and distilling without a model works on labelled trajectories; it only reads and prints.

    python benchmarks/judge_evidence.py --data FOLDER

FOLDER holds `*.jsonl` or `*.jsonl.gz` files of {id, task, success, steps} with `source` and `task_id` where known, or
transcripts of a coding agent (those have no labels); other files are named and skipped. A hash of its id puts each
task in one of two halves: the half that may be looked at while rules are made, or the unseen one. Printed are, for each
source and all together, and for each half: how many were decided, their balanced accuracy, and how often each label was
right; then, for each bin of confidence, the stated confidence and the share that was right. Brackets hold 95 % score
intervals, which treat the attempts at one task as independent.
"""

import argparse
import gzip
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, cast

from labelled import read_labelled

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Label, Trajectory
from swarm_memory.tools.credit.intervals import wilson
from swarm_memory.tools.distill.distill import distill_by_extraction
from swarm_memory.tools.guard.redact import archivable
from swarm_memory.tools.judge.judge import judge_by_evidence

HALVES = ("looked", "unseen")
BINS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.01)
"""Bounds of the bins of the calibration table."""


@dataclass(frozen=True, slots=True)
class Known:
    """What a file says about a trajectory."""

    source: str
    task: str
    success: bool | None
    """Whether the task was met; None if the file does not say."""

    @property
    def half(self) -> str:
        return HALVES[int(hashlib.sha256(self.task.encode()).hexdigest()[:8], 16) % 2]


@dataclass(frozen=True, slots=True)
class Judged:
    """One verdict and the truth."""

    known: Known
    label: Label
    confidence: float

    @property
    def right(self) -> bool:
        return (self.label == "Success") is self.known.success


def main() -> None:
    """Judge every file of the folder and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder, searched through, or one file")
    verdicts: list[Judged] = []
    for path in files_of(parser.parse_args().data):
        try:
            verdicts += measure(path)
        except InputError as error:
            print(f"{path.name}: passed over, {str(error).split(';')[0]}")
    report([verdict for verdict in verdicts if verdict.known.success is not None])


def files_of(data: Path) -> list[Path]:
    """Return the trajectory files of a folder, except those of subagents, or the single file that is named."""
    found = [data] if data.is_file() else sorted(data.rglob("*"))
    return [path for path in found if path.name.endswith((".jsonl", ".jsonl.gz")) and "subagents" not in path.parts]


def measure(path: Path) -> list[Judged]:
    """Judge and distill every trajectory of one file; print the counts of labels and items."""
    settings, verdicts, items = Settings(), list[Judged](), 0
    for read_in, known in read(path):
        trajectory = archivable(read_in, settings)
        verdict = judge_by_evidence(trajectory, settings)
        verdicts.append(Judged(known, verdict.label, verdict.confidence))
        items += len(distill_by_extraction(trajectory, verdict, settings).drafts)
    counts = Counter(verdict.label for verdict in verdicts)
    print(f"{path.name}: n={len(verdicts)} {dict(sorted(counts.items()))} items={items}")
    return verdicts


def read(path: Path) -> Iterator[tuple[Trajectory, Known]]:
    """Yield a file's trajectories, each with what the file says about it; a transcript counts as one task."""
    content = path.read_bytes()
    lines = (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines()
    known = dict(filter(None, (known_of(line, path.name.partition(".")[0]) for line in lines)))
    for trajectory in read_labelled(path):
        task = trajectory.task_id.partition(":")[0]
        yield trajectory, known.get(trajectory.task_id, Known(path.name, task, None))


def known_of(line: bytes, file: str) -> tuple[str, Known] | None:
    """Return the id of a line's trajectory and what the line says about it; None for any other line."""
    try:
        record: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or "id" not in record:
        return None
    fields = cast("dict[str, Any]", record)
    named = str(fields["id"])
    source = f"{file}: {fields['source']}" if "source" in fields else file
    return named, Known(source, str(fields.get("task_id") or named), label_of(fields))


def label_of(record: dict[str, Any]) -> bool | None:
    """Return whether the record says that its task was met; None if it says nothing."""
    for key in ("success", "label", "passed", "reward"):
        value = record.get(key)
        if isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return value >= 1
        if isinstance(value, str) and value.lower() in ("success", "failure"):
            return value.lower() == "success"
    return None


def report(verdicts: Sequence[Judged]) -> None:
    """Print the tables of each source and of all together."""
    by_source: dict[str, list[Judged]] = defaultdict(list)
    for verdict in verdicts:
        by_source[verdict.known.source].append(verdict)
    for source, own in sorted(by_source.items()):
        print_halves(source, own)
    if len(by_source) > 1:
        print_halves("all together", verdicts)
    for half in HALVES:
        print_calibration(half, [verdict for verdict in verdicts if verdict.known.half == half])


def print_halves(name: str, verdicts: Sequence[Judged]) -> None:
    """Print a line for each half."""
    print(f"\n{name}")
    for half in HALVES:
        if own := [verdict for verdict in verdicts if verdict.known.half == half]:
            met = sum(verdict.known.success is True for verdict in own)
            print(f"  {half}: n={len(own)} met={met} {figures(own)}")


def figures(verdicts: Sequence[Judged]) -> str:
    """Return coverage, balanced accuracy of the decided and the precision of each label, as text."""
    decided = [verdict for verdict in verdicts if verdict.label != "Undecided"]
    balanced = balanced_accuracy(decided)
    text = f"decided={len(decided)} coverage={len(decided) / len(verdicts):.3f}"
    text += f" balanced_accuracy={'-' if balanced is None else format(balanced, '.3f')}"
    for label in ("Success", "Failure"):
        text += f" {label} right {share([verdict for verdict in decided if verdict.label == label])}"
    return text


def balanced_accuracy(decided: Sequence[Judged]) -> float | None:
    """Return the mean of the accuracies on tasks that were met and on the others; None unless there are both."""
    sides = [[verdict for verdict in decided if verdict.known.success is met] for met in (True, False)]
    return fmean(fmean(verdict.right for verdict in side) for side in sides) if all(sides) else None


def share(verdicts: Sequence[Judged]) -> str:
    """Return how many of the verdicts are right, with the interval of the rate."""
    if not verdicts:
        return "0/0"
    right = sum(verdict.right for verdict in verdicts)
    rate = wilson(right, len(verdicts))
    return f"{right}/{len(verdicts)} = {rate.value:.2f} [{rate.low:.2f}, {rate.high:.2f}]"


def print_calibration(half: str, verdicts: Sequence[Judged]) -> None:
    """Print for each bin of confidence and each label the mean stated confidence, and how often it was right."""
    print(f"\ncalibration, {half}")
    for low, high in pairwise(BINS):
        for label in ("Success", "Failure"):
            own = [each for each in verdicts if each.label == label and low <= each.confidence < high]
            if own:
                said = fmean(verdict.confidence for verdict in own)
                print(f"  {low:.1f} to {min(high, 1.0):.1f} {label}: said {said:.2f}, right {share(own)}")


if __name__ == "__main__":
    main()
