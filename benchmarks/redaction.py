"""Recall, false positives and speed of redaction on the lines of `tests/guard`, made anew from a seed.

`--lines FILE` counts the lines of a file of your own in which something is found.
"""

import argparse
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "shared"))

from harmless_lines import FIXED, random_lines
from secret_lines import CONTEXTS, VENDORS, context_lines, vendor_lines

from swarm_memory.tools.guard.redact import redact

PROSE = "The migration failed at 12:03:44 in worker-7 (commit 3f2a9c1d, /srv/app/models/order.py:118): retry 2 of 5. "


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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--lines", type=Path)
    arguments = parser.parse_args()
    if arguments.lines is None:
        _figures(arguments.seeds)
        return
    lines = arguments.lines.read_text(encoding="utf-8", errors="replace").splitlines()
    print(f"{sum(bool(redact(line).counts) for line in lines)} of {len(lines)} lines hold something")


if __name__ == "__main__":
    main()
