"""From the start of the server's process to its answers, over a large bank and over one of ten memories, in turns.

    python benchmarks/scale.py --memories 1000000 --bank LARGE
    python benchmarks/start.py --bank LARGE [--runs 15]

`initialize` is what a host waits for; `first call` is `memory_status` right after it, which opens the bank.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from speed_server import SERVE, Peer, fill, paragraphs

TEN = 10


def start_ms(database: Path, folder: Path) -> tuple[float, float]:
    """Return the milliseconds to the answer of `initialize` and to that of the first call."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "SWARM_MEMORY_DB": str(database)}
    began = time.perf_counter()
    peer = Peer(*SERVE, cwd=str(folder), environ=environment)
    peer.initialize()
    initialized = time.perf_counter()
    answer = peer.ask("tools/call", {"name": "memory_status", "arguments": {}})
    called = time.perf_counter()
    peer.end()
    if "error" in answer or answer["result"].get("isError"):
        raise RuntimeError(f"the server did not answer: {answer}")
    return (initialized - began) * 1000, (called - began) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bank", type=Path, required=True, help="a folder that scale.py made")
    parser.add_argument("--runs", type=int, default=15)
    args = parser.parse_args()
    large = args.bank.resolve() / "memory.db"
    if not large.is_file():
        sys.exit(f"there is no bank {large}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(fill(folder, paragraphs(TEN)))
        small = folder / ".swarm" / "memory.db"
        for each in (small, large):
            start_ms(each, folder)  # warm
        pairs = [(start_ms(small, folder), start_ms(large, folder)) for _ in range(args.runs)]
    of_ten, of_large = zip(*pairs, strict=True)
    for place, what in enumerate(("initialize", "first call")):
        ten, many = (statistics.median(each[place] for each in times) for times in (of_ten, of_large))
        print(json.dumps({"to": what, "ten_ms": round(ten), "large_ms": round(many), "ratio": round(many / ten, 2)}))


if __name__ == "__main__":
    main()
