"""Replaces the running service by another version of itself."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

LIVE = Path("live.json")
READY_S, DRAIN_S = 3.0, 0.6


def is_ready(port: int) -> bool:
    """Ask a version whether it is ready, until it is or the time is over."""
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
            return True
        time.sleep(0.05)
    return False


def main(version: str) -> int:
    """Return the exit code."""
    if subprocess.run([sys.executable, "migrate.py", version], check=False).returncode != 0:
        return 1
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = subprocess.DEVNULL
    service = subprocess.Popen(
        [sys.executable, "service.py", version, str(port)], stdout=quiet, stderr=quiet, start_new_session=True
    )
    if not is_ready(port):
        service.kill()
        service.wait()
        return 1
    old = json.loads(LIVE.read_text(encoding="utf-8"))
    following = LIVE.with_suffix(".new")
    following.write_text(json.dumps({"version": version, "port": port, "pid": service.pid}), encoding="utf-8")
    following.replace(LIVE)
    time.sleep(DRAIN_S)
    with contextlib.suppress(ProcessLookupError):
        os.kill(old["pid"], signal.SIGTERM)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
