"""A project whose host runs our hook commands as real processes, with or without a running server."""

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forked import CLI, ISOLATED, run
from made_files import written
from patience import HANG_S, STATIC, UNHURRIED
from stdio_server import Server, serving

from swarm_memory.server.hooks.client import run_folder, short_socket_path, socket_prefix
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine.connection import connect

DEMO = Path(__file__).parents[2] / "server" / "cli" / "demo" / "session.jsonl"

TASK = "The test suite fails with SettingsError: config/test.toml not found. Make the tests pass."
"""A task that the demo session teaches a note for."""

NOTE = "cp config/test.example.toml config/test.toml"
"""The note that the demo session teaches: a way past that error, shown when a task names the error."""

VERBS = ("session-start", "prompt", "before-tool", "stop", "session-end")

SAID = "Never push to main without asking"
"""A rule that the user stated; it is shown in the briefing."""

PATIENT = """
import sys
from swarm_memory.server.hooks import client, main
client.READY_S = client.PATIENT_S = 60.0
main.main(sys.argv[1:])
"""
"""A hook command that waits for a server as long as even a busy machine needs."""


def second_session(beside: Path) -> Path:
    """Write a session that confirms what the demo session shows; return its path."""
    text = DEMO.read_text("utf-8").replace("000000000001", "000000000002").replace("T08:", "T09:")
    return written(beside.with_name("s0.jsonl"), text)


@dataclass(frozen=True)
class HookProject:
    """A project, its host's folder with one transcript, and the environment and events that hook commands get."""

    root: Path
    home: Path
    extra: dict[str, str] = field(default_factory=dict[str, str])
    """Additional environment variables."""

    @classmethod
    def made(cls, root: Path, home: Path) -> "HookProject":
        """Make an empty project, and the transcript of the demo session where the host keeps it."""
        project = cls(root, home)
        for folder in (root, project.transcript.parent):
            folder.mkdir(parents=True)
        project.transcript.write_bytes(DEMO.read_bytes())
        return project

    @property
    def config(self) -> Path:
        return self.home / ".claude"

    @property
    def transcript(self) -> Path:
        return self.config / "projects" / self.root.name / "s1.jsonl"

    @property
    def bank(self) -> Path:
        return self.root / ".swarm"

    @property
    def database(self) -> Path:
        return self.bank / "memory.db"

    @property
    def environment(self) -> dict[str, str]:
        folders = {"CLAUDE_PROJECT_DIR": str(self.root), "CLAUDE_CONFIG_DIR": str(self.config)}
        return {**STATIC, "PATH": os.environ["PATH"], "HOME": str(self.home), **folders, **self.extra}

    def configure(self, text: str, *, users: bool = True) -> Path:
        """Write the user's settings file, or the project's; return its path."""
        file = self.home / ".config" / "swarm-memory" / "config.yaml" if users else self.bank / "config.yaml"
        return written(file, text)

    def event(self, **changed: Any) -> str:
        event = {"session_id": "s1", "transcript_path": str(self.transcript), "cwd": str(self.root), "reason": "other"}
        return json.dumps(event | changed)

    def run(self, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run Python in the project, isolated like the installed hooks, with our whole package already imported."""
        return run([*ISOLATED, *arguments], input=self.event() if given is None else given, **self._in_project)

    def start(self, *arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run Python like `run`, but as a new process that does its own imports."""
        return subprocess.run(
            [*ISOLATED, *arguments],
            input=self.event() if given is None else given,
            capture_output=True,
            timeout=HANG_S,
            **self._in_project,
        )

    @property
    def _in_project(self) -> dict[str, Any]:
        return {"cwd": self.root, "env": self.environment, "text": True}

    def hook(self, verb: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
        return self.run("-c", UNHURRIED, verb, given=given)

    def printed(self, verb: str, given: str | None = None) -> str:
        """Return what a hook prints; fail unless it exits with code 0 and an empty stderr."""
        done = self.hook(verb, given)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def prompt(self, text: str = TASK, session: str = "s1", *, patient: bool = False) -> str:
        """Return what the prompt hook adds to a prompt; with `patient` it waits for a server even on a busy machine."""
        event = self.event(hook_event_name="UserPromptSubmit", prompt=text, session_id=session)
        how = ("-c", PATIENT) if patient else ("-m", "swarm_memory.server.hooks")
        done = self.run(*how, "prompt", given=event)
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] if done.stdout else ""

    def cli(self, *arguments: str, given: str | None = None) -> str:
        done = run([*CLI, *arguments], input=given, **self._in_project)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def log(self) -> str:
        path = self.bank / "log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def rows(self, query: str, *values: str) -> list[Any]:
        """Query the bank's file and return the rows."""
        connection = connect(self.database, driver=choose(), read_only=True)
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()

    def retrievals(self, session: str, count: int = 1) -> list[dict[str, Any]]:
        """Return a session's recorded retrievals once there are `count`: they are recorded after the answer."""
        query = "SELECT data FROM events WHERE data LIKE '%' || ? || '%' AND type = 'reasoning_memory.retrieved'"

        def found() -> list[Any]:
            return self.rows(query, f'"{session}"')

        wait_until(lambda: len(found()) >= count)
        return [json.loads(data) for (data,) in found()]

    def sockets(self) -> list[Path]:
        """Return the sockets of the project's servers."""
        return sorted(Path(run_folder()).glob(f"{socket_prefix(self.root)}*.sock"))

    @contextmanager
    def serving(self, *options: str, listens: bool = True) -> Generator[Server]:
        """Run a server of the project; if it `listens` for hooks, wait until it does."""
        before = set(self.sockets())
        with serving(self.root, *options, env=self.environment) as server:
            server.initialize()
            wait_until(lambda: not listens or any(map(_listens, set(self.sockets()) - before)))
            yield server

    @contextmanager
    def no_workers_left(self) -> Generator[None]:
        """Wait on exit until the worker that a SessionEnd started has ended (where there is /proc)."""
        yield
        wait_for_processes(self.root)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until another process has made a condition true."""
    deadline = time.monotonic() + HANG_S
    while not is_so():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.02)


def wait_for_server(root: Path) -> None:
    """Wait until a server of a project listens for hooks."""
    wait_until(lambda: any(map(_listens, Path(run_folder()).glob(f"{socket_prefix(root)}*.sock"))))


def _listens(path: Path) -> bool:
    """Whether a socket accepts commands: its file exists before it is made private and listened on."""
    with socket.socket(socket.AF_UNIX) as channel, short_socket_path(path) as address:
        return channel.connect_ex(address) == 0


def wait_for_processes(folder: Path) -> None:
    """Wait until no process but this one has its working directory in a folder (where there is /proc)."""
    deadline = time.monotonic() + HANG_S
    while left := list(_processes_in(folder)):
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.02)


def _processes_in(folder: Path) -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(folder) and int(process.name) != os.getpid():
                yield (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
