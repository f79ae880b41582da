"""Fuzzes the transcript parser with mutations of real lines, guided by coverage; any error but InputError ends it.

    python scripts/fuzz_transcripts.py [--seconds 300]

Needs atheris (`pip install atheris`), which is not a dependency: without it the script says so and does nothing.
"""

import argparse
import io
import sys
import tempfile
from pathlib import Path

from swarm_memory.schema.errors import InputError

DEMO = Path(__file__).parent.parent / "server" / "cli" / "demo" / "session.jsonl"


def read_all(data: bytes) -> None:
    """Read bytes as a transcript, to its end."""
    from swarm_memory.server.hosts.transcript import read_trajectories

    text = io.StringIO(data.decode("utf-8", "replace"))
    try:
        for trajectory in read_trajectories(text):
            trajectory.model_dump_json()
    except InputError:
        return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=300)
    seconds = parser.parse_args().seconds
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: nothing was fuzzed")
        return 0
    with atheris.instrument_imports(include=["swarm_memory"]):
        import swarm_memory.server.hosts.transcript  # noqa: F401 - instrumented for `read_all`
    with tempfile.TemporaryDirectory() as corpus:
        for number, line in enumerate(DEMO.read_bytes().splitlines()):
            (Path(corpus) / str(number)).write_bytes(line)
        (Path(corpus) / "all").write_bytes(DEMO.read_bytes())
        atheris.Setup(
            [sys.argv[0], f"-max_total_time={seconds}", "-max_len=60000", "-print_final_stats=1", corpus], read_all
        )
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
