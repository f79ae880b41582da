"""How far the judging and distilling without a model carries on labelled trajectories; it only reads and prints.

    python benchmarks/judge_evidence.py --data FOLDER [--items N]

FOLDER holds `*.jsonl` or `*.jsonl.gz` files of {id, task, success, steps} with `source` and `task_id` where known, or
transcripts of a coding agent (those have no labels); other files are named and passed over. Each task is in one of two
halves, by a hash of its id: the half that may be looked at while rules are made, and the unseen one. For each source
and for all together, for each half: how many were decided, balanced accuracy of these, how often each label was right,
and the same for a baseline that knows nothing but the number of steps (its threshold comes from the looked-at half);
then, for each bin of confidence, what was said and what was right. Brackets hold 95 % score intervals, which take the
attempts at one task for independent. With `--items N`: the items of the first N trajectories that gave any.
"""

import argparse
import gzip
import hashlib
import json
import sys
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

HALVES = ("looked at", "unseen")
BINS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.01)
"""Bounds of the bins of the calibration table."""

ALL = "all together"


@dataclass(frozen=True, slots=True)
class Known:
    """What stands beside a trajectory in its file."""

    source: str
    task: str
    success: bool | None
    """Whether the task was met; None where the file does not say."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One verdict beside the truth."""

    known: Known
    label: Label
    confidence: float
    length: int
    """Steps of the trajectory."""

    @property
    def half(self) -> str:
        return HALVES[int(hashlib.sha256(self.known.task.encode()).hexdigest()[:8], 16) % 2]

    @property
    def right(self) -> bool:
        return (self.label == "Success") is self.known.success


def main() -> None:
    """Judge every file of the folder and print the tables, and items where they were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder, searched through, or one file")
    parser.add_argument(
        "--items", type=int, default=0, metavar="N", help="print the items of N trajectories of each file"
    )
    arguments = parser.parse_args()
    folder: Path = arguments.data
    files = [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())
    verdicts: list[Judged] = []
    for path in files:
        if path.name.endswith((".jsonl", ".jsonl.gz")) and "subagents" not in path.parts:
            try:
                verdicts += measure(path, arguments.items)
            except InputError as error:
                print(f"{path.name}: passed over, {str(error).split(';')[0]}")
    report([verdict for verdict in verdicts if verdict.known.success is not None])


def measure(path: Path, items: int) -> list[Judged]:
    """Judge and distill every trajectory of one file; prints the counts of labels and items."""
    settings = Settings()
    verdicts: list[Judged] = []
    stored = 0
    shown = 0
    for read_in, known in read(path):
        trajectory = archivable(read_in, settings)
        verdict = judge_by_evidence(trajectory, settings)
        verdicts.append(Judged(known, verdict.label, verdict.confidence, len(trajectory.steps)))
        distilled = distill_by_extraction(trajectory, verdict, settings)
        stored += len(distilled.drafts)
        if distilled.drafts and shown < items:
            shown += 1
            print(f"\n--- {trajectory.task_id}: {verdict.label} {verdict.confidence} (met: {known.success})")
            for draft in distilled.drafts:
                print(f"* {draft.title}\n  {draft.description}\n{draft.content}\n  {draft.domain} {draft.tags}")
    counts = Counter(verdict.label for verdict in verdicts)
    print(f"{path.name}: n={len(verdicts)} {dict(sorted(counts.items()))} items={stored}")
    return verdicts


def read(path: Path) -> Iterator[tuple[Trajectory, Known]]:
    """Yield the trajectories of a file, each with what stands beside it."""
    content = path.read_bytes()
    lines = (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines()
    known = dict(filter(None, (known_of(line, path.name.partition(".")[0]) for line in lines)))
    for trajectory in read_labelled(path):
        yield trajectory, known.get(trajectory.task_id, Known(path.name, trajectory.task_id, None))


def known_of(line: bytes, file: str) -> tuple[str, Known] | None:
    """Return the id of a line's trajectory and what stands beside it; None for another line."""
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
    """Return whether the record says that its task was met."""
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
    by_length: list[Judged] = []
    for verdict in verdicts:
        by_source[verdict.known.source].append(verdict)
    for source, own in sorted(by_source.items()):
        guessed = length_only(own)
        by_length += guessed
        print_halves(source, own, guessed)
    if len(by_source) > 1:
        print_halves(ALL, verdicts, by_length)
    for half in HALVES:
        print_calibration(half, [verdict for verdict in verdicts if verdict.half == half])


def length_only(verdicts: Sequence[Judged]) -> list[Judged]:
    """Return what a judge would say that sees only how many steps there are: one threshold, either way round.

    It is the one with the best balanced accuracy on the looked-at half; where that half has one label only, that label.
    """
    seen = [verdict for verdict in verdicts if verdict.half == HALVES[0]]
    bounds = [sys.maxsize, *sorted({verdict.length for verdict in seen})]
    rules = [(bound, short) for bound in bounds for short in (True, False)]

    def said(verdict: Judged, bound: int, short: bool) -> Judged:
        label: Label = "Success" if (verdict.length <= bound) is short else "Failure"
        return Judged(verdict.known, label, 0.5, verdict.length)

    def worth(rule: tuple[int, bool]) -> tuple[float, int]:
        guessed = [said(verdict, *rule) for verdict in seen]
        return balanced_accuracy(guessed) or 0.0, sum(verdict.right for verdict in guessed)

    best = max(rules, key=worth, default=(0, True))
    return [said(verdict, *best) for verdict in verdicts]


def print_halves(name: str, verdicts: Sequence[Judged], guessed: Sequence[Judged]) -> None:
    """Print a line for each half, and one for the baseline."""
    print(f"\n{name}")
    for half in HALVES:
        own = [verdict for verdict in verdicts if verdict.half == half]
        if own:
            met = sum(verdict.known.success is True for verdict in own)
            print(f"  {half}: n={len(own)} met={met} {figures(own)}")
            print(f"  {' ' * len(half)}  by length alone: {figures([each for each in guessed if each.half == half])}")


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
    """Return the mean of the shares that are right of the met tasks and of the others; None without both."""
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
    """Print for each bin of confidence and each label what was said on average, and how often it was right."""
    print(f"\ncalibration, {half}")
    for low, high in pairwise(BINS):
        for label in ("Success", "Failure"):
            own = [each for each in verdicts if each.label == label and low <= each.confidence < high]
            if own:
                said = fmean(verdict.confidence for verdict in own)
                print(f"  {low:.1f} to {min(high, 1.0):.1f} {label}: said {said:.2f}, right {share(own)}")


if __name__ == "__main__":
    main()
