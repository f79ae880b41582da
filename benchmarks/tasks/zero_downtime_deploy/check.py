"""Checks `deploy.py` in the folder that it is given, with clients that never stop asking."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

LIMIT_S = 15
SHIPPED = Path(__file__).resolve().parent / "work"


class Client(threading.Thread):
    """Asks the service that is live, all the time."""

    def __init__(self, live: Path) -> None:
        super().__init__(daemon=True)
        self._live = live
        self.ended = threading.Event()
        self.faults: list[str] = []
        self.versions: list[str] = []

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                port = json.loads(self._live.read_text(encoding="utf-8"))["port"]
                time.sleep(0.02)
                answer = ask(port, "/")
            except (OSError, ValueError, http.client.HTTPException) as error:
                self.faults.append(f"{type(error).__name__}: {error}")
                continue
            self.versions.append(answer[1])
            if answer[0] != 200:
                self.faults.append(f"{answer[0]} {answer[1]}")


def ask(port: int, path: str) -> tuple[int, str]:
    """Return status and text of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def main() -> None:
    """End with 0 when all of it works."""
    given = Path(sys.argv[1])
    if not (given / "deploy.py").is_file():
        sys.exit("there is no deploy.py")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch) / "site"
        shutil.copytree(given, folder, ignore=shutil.ignore_patterns("running", "live.json", "__pycache__"))
        for name in ("service.py", "migrate.py"):
            shutil.copy(SHIPPED / name, folder / name)
        try:
            check(folder)
        finally:
            for pid in services(folder).values():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGTERM)


def check(folder: Path) -> None:
    """Deploy good, sick and stuck versions, one after the other."""
    start_first(folder)
    live = folder / "live.json"
    clients = [Client(live) for _ in range(3)]
    for client in clients:
        client.start()
    for version, works in (("v2", True), ("sick-v3", False), ("stuck-v4", False), ("v5", True)):
        before = live.read_text(encoding="utf-8")
        code = deploy(folder, version)
        after = json.loads(live.read_text(encoding="utf-8"))
        if (code == 0) != works:
            sys.exit(f"the deployment of {version} ended with code {code}")
        if not works and live.read_text(encoding="utf-8") != before:
            sys.exit(f"live.json changed by the deployment of {version}, which failed")
        if works and after.get("version") != version:
            sys.exit(f"live.json names {after.get('version')} after the deployment of {version}")
        running = [port for port in services(folder) if answers(port)]
        if running != [after["port"]]:
            sys.exit(f"after the deployment of {version} services run on {running}, live is {after['port']}")
        if works and services(folder)[after["port"]] != after["pid"]:
            sys.exit("live.json names another process than the one that runs")
    for client in clients:
        client.ended.set()
        client.join()
    faults = [fault for client in clients for fault in client.faults]
    if faults:
        sys.exit(f"{len(faults)} requests failed, the first with: {faults[0]}")
    seen = {version for client in clients for version in client.versions}
    if not {"v1", "v2", "v5"} >= seen > {"v5"}:
        sys.exit(f"clients were answered by {sorted(seen)}")


def start_first(folder: Path) -> None:
    """Run version 1 and wait for it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "service.py", "v1", str(port)], cwd=folder)
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if ask(port, "/health")[0] == 200:
                break
        time.sleep(0.05)
    told = {"version": "v1", "port": port, "pid": process.pid}
    (folder / "live.json").write_text(json.dumps(told), encoding="utf-8")
    threading.Thread(target=process.wait, daemon=True).start()


def deploy(folder: Path, version: str) -> int:
    """Run what was written, and return its exit code."""
    command = [sys.executable, "deploy.py", version]
    quiet = subprocess.DEVNULL
    try:
        done = subprocess.run(command, cwd=folder, stdout=quiet, stderr=quiet, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        sys.exit(f"deploy.py {version} did not end within {LIMIT_S} s")
    return done.returncode


def services(folder: Path) -> dict[int, int]:
    """Return the process id of each service that was started, by its port."""
    found = folder / "running"
    return {int(file.name): int(file.read_text(encoding="ascii")) for file in found.iterdir()} if found.is_dir() else {}


def answers(port: int) -> bool:
    """Tell whether somebody listens; one that was told to end has a second for it."""
    until = time.monotonic() + 1
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            return False
        time.sleep(0.05)
    return True


if __name__ == "__main__":
    main()
