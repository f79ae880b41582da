"""Recall, false positives and speed of redaction on the lines of `tests/guard`, made again from a seed.

    python benchmarks/redaction.py                  our own lines
    python benchmarks/redaction.py --samples PATH…  samples of others: files of JSON lines, or folders of them

A line of a sample is `{"label": "secret" or "harmless", "kind": "vendor", "text": "…"}`; with `"secret"`, the part of
the text that has to go, it is looked for, else it is enough that something is masked. `--show` prints what is missed.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "shared"))

from harmless_lines import FIXED, random_lines
from secret_lines import CONTEXTS, VENDORS, context_lines, vendor_lines

from swarm_memory.tools.guard.redact import redact

PROSE = "The migration failed at 12:03:44 in worker-7 (commit 3f2a9c1d, /srv/app/models/order.py:118): retry 2 of 5. "


class Sample(BaseModel):
    """A text of somebody else, and what is to become of it."""

    label: str
    kind: str
    text: str
    secret: str | None = None

    def is_right(self) -> bool:
        """Tell whether the secret is masked, or the harmless text left as it is."""
        redacted = redact(self.text)
        if self.label == "harmless":
            return not redacted.counts
        return self.secret[-12:] not in redacted.text if self.secret else bool(redacted.counts)


def _samples(paths: Iterable[Path]) -> Iterator[Sample]:
    for path in paths:
        for file in sorted(path.rglob("*.jsonl")) if path.is_dir() else [path]:
            for line in file.read_text(encoding="utf-8").splitlines():
                yield Sample.model_validate(json.loads(line))


def _foreign(paths: Iterable[Path], *, show: bool) -> None:
    all_, right = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for sample in _samples(paths):
        key = (sample.label, sample.kind)
        all_[key] += 1
        right[key] += sample.is_right()
        if show and not sample.is_right():
            print(f"{sample.label} {sample.kind}: {sample.text!r}")
    for (label, kind), count in sorted(all_.items(), reverse=True):
        done = right[label, kind]
        said = "left as they are" if label == "harmless" else "masked"
        print(f"{label} {kind}: {done} of {count} {said} ({done / count:.1%})")


def _figures(seeds: int) -> None:
    vendor = [each for seed in range(seeds) for each in vendor_lines(seed)]
    masked = sum(secret[-12:] not in redact(line).text for _, secret, line in vendor)
    context = [line for seed in range(seeds) for _, line in context_lines(seed, times=1)]
    found = sum(bool(redact(line).counts) for line in context)
    harmless = [*FIXED, *(line for seed in range(seeds) for line in random_lines(seed, times=1))]
    touched = sum(bool(redact(line).counts) for line in harmless)
    print(f"vendors' formats: {masked} of {len(vendor)} masked ({len(VENDORS)} kinds)")
    print(f"by what stands around them: {found} of {len(context)} ({len(CONTEXTS)} kinds)")
    print(f"harmless lines touched: {touched} of {len(harmless)} ({touched / len(harmless):.2%})")
    random_ = random.Random(0)
    mixed = [line for _, _, line in vendor] + harmless
    for name, text in {
        "prose and paths": PROSE * (100_000 // len(PROSE)),
        "code of Python": Path(argparse.__file__).read_text(encoding="utf-8"),
        "ids, hashes and paths": "\n".join(random_.choice(harmless) for _ in range(2_500)),
        "one secret in ten lines": "\n".join(
            random_.choice(mixed if at % 10 == 0 else harmless) for at in range(2_500)
        ),
    }.items():
        print(f"{name}: {_ms_per_100_kb(text[:100_000]):.1f} ms per 100 KB")


def _ms_per_100_kb(text: str) -> float:
    times: list[float] = []
    for _ in range(5):
        started = time.process_time()
        redact(text)
        times.append(time.process_time() - started)
    return min(times) * 1000 * 100_000 / len(text)


def main() -> None:
    """Print the figures, or what is found in a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--lines", type=Path, help="count the lines of a file in which something is found")
    parser.add_argument("--samples", type=Path, nargs="+", help="files of JSON lines, or folders of them")
    parser.add_argument("--show", action="store_true", help="print what is missed")
    arguments = parser.parse_args()
    if arguments.samples is not None:
        _foreign(arguments.samples, show=arguments.show)
    elif arguments.lines is not None:
        lines = arguments.lines.read_text(encoding="utf-8", errors="replace").splitlines()
        print(f"{sum(bool(redact(line).counts) for line in lines)} of {len(lines)} lines hold something")
    else:
        _figures(arguments.seeds)


if __name__ == "__main__":
    main()
