"""What the server costs while nothing happens: resident memory and wake-ups a minute of all its threads (Linux).

    python benchmarks/idle.py [--seconds 60] [--settle 40] [--bank FOLDER] [--unused]

The real server is started over stdio and over HTTP, asked once (a memory is looked for, so that the bank is open and
the embedder loaded; `--unused`: only for its tools, over stdio), then left alone until the timers of that use have run
out, and watched. A wake-up is a context switch of any of its threads. `--bank` names a folder with a `memory.db`, such
as `scale.py --bank` makes; without it the bank is empty. Over HTTP the client's session stays open; its connection is
closed.
"""

import argparse
import json
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from speed_http import SERVE, running
from speed_server import SERVE as SERVE_STDIO
from speed_server import Peer

QUERY = "the tests fail after the settings were moved: what to check first?"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "idle", "version": "1"}}
ACCEPT = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


class Rest(NamedTuple):
    """What was seen of a process at rest."""

    resident_mb: float
    wakes_a_minute: float
    threads: int


def switches(pid: int) -> int:
    """Return how often any thread of a process was given the processor, or gave it up, since it started."""
    counts = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        fields = dict(line.split(":", 1) for line in status.read_text("ascii").splitlines())
        counts += int(fields["voluntary_ctxt_switches"]) + int(fields["nonvoluntary_ctxt_switches"])
    return counts


def watch(pid: int, settle_s: float, seconds: float) -> Rest:
    """Leave a process alone, then watch it."""
    time.sleep(settle_s)
    before, began = switches(pid), time.monotonic()
    time.sleep(seconds)
    woken, took = switches(pid) - before, time.monotonic() - began
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    threads = len(list(Path(f"/proc/{pid}/task").iterdir()))
    return Rest(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, woken * 60 / took, threads)


@contextmanager
def over_stdio(folder: Path, environment: dict[str, str], used: bool = True) -> Generator[int]:
    """Run the server over stdio and ask it once, where it is to be used; yield its process id."""
    peer = Peer(*SERVE_STDIO, cwd=str(folder), environ=environment)
    try:
        peer.initialize()
        peer.ask("tools/list", {})
        if used:
            _answered(peer.ask("tools/call", {"name": "retrieve_memories", "arguments": {"query": QUERY}}))
        yield peer.pid
    finally:
        peer.end()


@contextmanager
def over_http(folder: Path, environment: dict[str, str]) -> Generator[int]:
    """The same over HTTP; no connection stays open."""
    with running([*SERVE, "serve", "--http", "--port", "0"], folder, environment) as (url, headers, pid):
        _post(url, headers, "initialize", HELLO, 1)
        _post(url, headers, "notifications/initialized", {})
        _answered(_post(url, headers, "tools/call", {"name": "retrieve_memories", "arguments": {"query": QUERY}}, 2))
        yield pid


def _post(
    url: str, headers: dict[str, str], method: str, params: dict[str, Any], number: int | None = None
) -> dict[str, Any]:
    """Send one message on a connection of its own; return the answer."""
    message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if number is None else {"id": number})
    request = urllib.request.Request(url, json.dumps(message).encode(), ACCEPT | headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        data = [line[5:] for line in answer.read().decode().splitlines() if line.startswith("data:")]
        return json.loads(data[-1]) if data else {}


def _answered(answer: dict[str, Any]) -> None:
    if "error" in answer or answer["result"].get("isError"):
        raise RuntimeError(f"the server did not answer: {answer}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--settle", type=float, default=40.0, help="seconds of rest before it is watched")
    parser.add_argument("--bank", type=Path, help="a folder with a memory.db")
    parser.add_argument("--unused", action="store_true", help="ask for nothing but the list of tools")
    args = parser.parse_args()
    if not Path("/proc/self/task").is_dir():
        sys.exit("wake-ups are counted by /proc, which this system does not have")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {"PATH": os.environ["PATH"], "HOME": name}
        if args.bank is not None:
            environment["SWARM_MEMORY_DB"] = str(args.bank.resolve() / "memory.db")
            environment["SWARM_MEMORY_STORAGE__PROJECT"] = "scale"
        unused = (("stdio", partial(over_stdio, used=False)),)
        for title, started in unused if args.unused else (("stdio", over_stdio), ("http", over_http)):
            with started(folder, environment) as pid:
                seen = watch(pid, args.settle, args.seconds)
            print(
                f"{title:6} resident {seen.resident_mb:5.0f} MB, wake-ups {seen.wakes_a_minute:6.1f} a minute, "
                f"threads {seen.threads}",
                flush=True,
            )


if __name__ == "__main__":
    main()
