"""How far the judging and distilling without a model carries on labelled trajectories; it only reads and prints.

    python benchmarks/judge_evidence.py --data FOLDER [--items N]

FOLDER holds `*.jsonl` or `*.jsonl.gz` files of {id, task, success, steps}, or transcripts of a coding agent (those have
no labels); other files are named and passed over. For each file: trajectories, verdicts decided, those that agree with
the label, balanced accuracy over the decided ones, coverage; with `--items N` the items of the first N trajectories
that gave any, word for word.
"""

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.tools.distill.distill import distill_by_extraction
from swarm_memory.tools.guard.redact import archivable
from swarm_memory.tools.judge.judge import judge_by_evidence


def main() -> None:
    """Print one line for each file, and items where they were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder, searched through, or one file")
    parser.add_argument(
        "--items", type=int, default=0, metavar="N", help="print the items of N trajectories of each file"
    )
    arguments = parser.parse_args()
    folder: Path = arguments.data
    files = [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())
    for path in files:
        if path.name.endswith((".jsonl", ".jsonl.gz")) and "subagents" not in path.parts:
            try:
                measure(path, arguments.items)
            except InputError as error:
                print(f"{path.name}: passed over, {str(error).split(';')[0]}")


def measure(path: Path, items: int) -> None:
    """Judge and distill every trajectory of one file and print the figures."""
    settings = Settings()
    outcomes: Counter[tuple[str, bool | None]] = Counter()
    stored = 0
    shown = 0
    for read_in, label in read(path):
        trajectory = archivable(read_in, settings)
        verdict = judge_by_evidence(trajectory, settings)
        outcomes[(verdict.label, label)] += 1
        distilled = distill_by_extraction(trajectory, verdict, settings)
        stored += len(distilled.drafts)
        if distilled.drafts and shown < items:
            shown += 1
            print(f"\n--- {trajectory.task_id}: {verdict.label} {verdict.confidence} (label: {label})")
            for draft in distilled.drafts:
                print(f"* {draft.title}\n  {draft.description}\n{draft.content}\n  {draft.domain} {draft.tags}")
    print(f"{path.name}: {figures(outcomes)}, items={stored}")


def read(path: Path) -> Iterator[tuple[Trajectory, bool | None]]:
    """Yield the trajectories of a file, each with the label that stands beside it."""
    content = path.read_bytes()
    lines = (gzip.decompress(content) if path.suffix == ".gz" else content).splitlines()
    labels = dict(filter(None, map(labelled, lines)))
    for trajectory in read_trajectories(path):
        yield trajectory, labels.get(trajectory.task_id)


def labelled(line: bytes) -> tuple[str, bool | None] | None:
    """Return the id of a line's trajectory and whether its task was met; None for another line."""
    try:
        record: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or "id" not in record:
        return None
    return str(cast("dict[str, Any]", record)["id"]), label_of(cast("dict[str, Any]", record))


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


def figures(outcomes: Counter[tuple[str, bool | None]]) -> str:
    """Return n, decided, agree, balanced accuracy over the decided and coverage, as text."""
    n = outcomes.total()
    decided = {key: count for key, count in outcomes.items() if key[0] != "Undecided"}
    total = sum(decided.values())
    text = f"n={n} decided={total} coverage={total / n if n else 0:.3f}"
    if all(label is None for _, label in outcomes):
        return f"{text} (no labels) " + " ".join(
            f"{label}={count}" for (label, _), count in sorted(outcomes.items(), key=str)
        )
    agree = decided.get(("Success", True), 0) + decided.get(("Failure", False), 0)
    rates = [
        decided.get((name, label), 0) / count
        for name, label in (("Success", True), ("Failure", False))
        if (count := sum(each for (_, known), each in decided.items() if known is label))
    ]
    balanced = sum(rates) / len(rates) if rates else 0.0
    return f"{text} agree={agree} accuracy={agree / total if total else 0:.3f} balanced_accuracy={balanced:.3f}"


if __name__ == "__main__":
    main()
