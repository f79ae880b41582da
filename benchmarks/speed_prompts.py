"""The hook of a prompt by two versions of the code, in turns within one run: its CPU, the server's, and the ratios.

    git worktree add ../before COMMIT        and install it into an environment of its own
    python benchmarks/speed_prompts.py --before ../before/.venv/bin/python [--rounds 30] [--memories 10000]

Each version answers the same prompts in a home and a project of its own, on a copy of the same bank: first each with a
server of its own up, then without. CPU is user and system, of whole processes: a hook's stands beside that of
`python -I -c pass`, a server's is what it takes for a prompt, with what it writes after its answer. Where the machine
is busy it says more than the wall time. `--bank` is a project that was filled before (`--keep FOLDER` leaves it there).
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from made_banks import own_home
from speed_server import NOTHING, SERVE, VERBS, Peer, fill, paragraphs

BANK = Path(".swarm", "memory.db")
COMMAND = "import json; from swarm_memory.server.hosts.entries import hook_command; print(json.dumps(hook_command()))"
OWN = (
    "import sys; from pathlib import Path; from swarm_memory.server.storage.engine import registry; "
    "registry.begin(Path(sys.argv[1]))"
)
WRITTEN_S = 0.35
"""A server writes what it noted so long after its answer."""


class Version:
    """One version of the code, with a home, a project and a bank."""

    def __init__(self, python: str, home: Path, bank: Path) -> None:
        self.python, self.root = python, home / "project"
        self.environ = {**os.environ, "HOME": str(home)}
        database = self.root / BANK
        database.parent.mkdir(parents=True, mode=0o700)
        shutil.copyfile(bank, database)
        database.chmod(0o600)
        self.said("-I", "-c", OWN, str(database))
        self.said("-I", "-m", "swarm_memory.server.cli", "status")
        self.hook: list[str] = json.loads(self.said("-I", "-c", COMMAND))[1:]
        self.server: Peer | None = None

    def said(self, *arguments: str) -> str:
        command = [self.python, *arguments]
        return subprocess.run(
            command, cwd=self.root, env=self.environ, check=True, capture_output=True, text=True
        ).stdout

    def serve(self) -> None:
        self.server = Peer(*SERVE, cwd=str(self.root), environ=self.environ, python=self.python)
        self.server.initialize()
        self.server.ask("tools/call", {"name": "memory_status", "arguments": {}})

    def answer(self, prompt: Mapping[str, Any]) -> dict[str, float]:
        """Return the milliseconds that a prompt took, on the clock and of the processor."""
        nothing = self._run(*NOTHING, told="")[1]
        time.sleep(WRITTEN_S if self.server else 0)
        before = self._server_cpu()
        wall, hook, said = self._run(*self.hook, "prompt", told=json.dumps(prompt))
        time.sleep(WRITTEN_S if self.server else 0)
        told = float(b"additionalContext" in said)
        return {"told": told, "wall": wall, "hook": hook, "nothing": nothing, "server": self._server_cpu() - before}

    def _run(self, *arguments: str, told: str) -> tuple[float, float, bytes]:
        began = time.perf_counter()
        process = subprocess.Popen(
            [self.python, *arguments], cwd=self.root, env=self.environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(told.encode())
        process.stdin.close()
        said = process.stdout.read()
        _, process.returncode, used = os.wait4(process.pid, 0)
        return (time.perf_counter() - began) * 1000, (used.ru_utime + used.ru_stime) * 1000, said

    def _server_cpu(self) -> float:
        if self.server is None:
            return 0.0
        used = 0
        for thread in Path(f"/proc/{self.server.pid}/task").iterdir():
            with suppress(FileNotFoundError):  # it has ended
                used += int((thread / "schedstat").read_text().split()[0])
        return used / 1e6


def compare(versions: Mapping[str, Version], texts: list[str], way: str) -> None:
    """Give each version the same prompts, in turns; print what each took and the medians of the ratios."""
    chance = random.Random(11)
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in versions}
    for number, text in enumerate(texts):
        prompt = f"{chance.choice(VERBS)} this: {' '.join(text.split()[:25])}"
        told = {"hook_event_name": "UserPromptSubmit", "session_id": f"{way}-{number}", "prompt": prompt}
        for name in sorted(versions, reverse=number % 2 == 0):
            taken[name].append(versions[name].answer(told))
    print(f"{way} ({len(texts)} prompts)")
    for name, runs in taken.items():
        hook, nothing, server, wall = (
            statistics.median(each[what] for each in runs) for what in ("hook", "nothing", "server", "wall")
        )
        p95 = statistics.quantiles([each["wall"] for each in runs], n=20)[-1]
        print(
            f"  {name:7} hook {hook:6.1f} ms of CPU (nothing: {nothing:.1f}), server {server:5.1f}; "
            f"p50 {wall:6.1f} ms, p95 {p95:6.1f}; "
            f"{sum(each['told'] for each in runs):.0f} were told something"
        )
    pairs = list(zip(taken["after"], taken["before"], strict=True))
    for what in ("hook", "server", "wall"):
        ratios = [after[what] / before[what] for after, before in pairs if before[what] > 0]
        if ratios:
            print(f"  after / before: {what} {statistics.median(ratios):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", required=True, help="a Python in which the other version is installed")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--bank", type=Path, help="a project that --keep left")
    parser.add_argument("--keep", type=Path, help="fill a bank in this folder, and leave it")
    options = parser.parse_args()
    texts = paragraphs(options.memories + options.rounds)
    with own_home() as root:
        folder = root.parent
        filled = options.bank or options.keep or folder / "filled"
        if options.bank is None:
            filled.mkdir(parents=True)
            asyncio.run(fill(filled, texts[options.rounds :]))
        pythons = {"before": options.before, "after": sys.executable}
        versions = {name: Version(python, folder / name, filled / BANK) for name, python in pythons.items()}
        for way in ("server", "hook"):
            for version in versions.values():
                if way == "server":
                    version.serve()
            compare(versions, texts[: options.rounds], way)
            for version in versions.values():
                if version.server is not None:
                    version.server.end()
                    version.server = None


if __name__ == "__main__":
    main()
