"""Hooks when the bank is locked, missing, damaged or full, or a model hangs: never a fault of the host, and in time."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from forked import CLI, run
from hook_project import HookProject
from patience import FULL, HANG_S, STATIC, UNHURRIED, is_in_time
from pydantic import BaseModel

from swarm_memory.schema.settings import EmbeddingSettings, StorageSettings
from swarm_memory.server.hooks.events import answer_hook
from swarm_memory.server.hooks.main import VERBS as OF_VERBS
from swarm_memory.server.served_bank import ServedBank, running
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.engine.files import writer_lock
from swarm_memory.server.wiring import open_toolbox, place_of
from tests.abuse.banks import settings_of

pytestmark = [
    pytest.mark.fault,
    pytest.mark.allow_hosts(["127.0.0.1"]),
    pytest.mark.skipif(sys.platform == "win32", reason="file permissions and limits of POSIX"),
]

CONDITIONS = ("locked", "missing", "corrupt", "empty", "not ours", "a link", "full", "no key")
QUICK = ("locked", "missing", "a link", "full", "no key")
"""Without the conditions for which `hooks/test_hook_commands.py` also starts processes."""

STRANGE = ("not ours", "a link")
"""The user is warned about these conditions, once."""
EVENTS = ("UserPromptSubmit", "PreToolUse")
TASK = "Make the tests of the shop pass"
VERBS = ("session-start", "prompt", "stop", "session-end")
HURRIED = "import sys; from swarm_memory.server.hooks.main import main; main(sys.argv[1:])"
SOON = {} if FULL else {"SWARM_MEMORY_STORAGE__BUSY_TIMEOUT_S": "0.2"}
NO_ROOM = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
"""Prevents a process from writing anything, as on a full disk."""

START_S = 1.0
"""The most that an interpreter takes to start; the rest of the time is the verb's own limit."""


@contextmanager
def broken(folder: Path, condition: str) -> Generator[dict[str, str]]:
    """Break a project's bank in one way; yield the environment variables that this way needs."""
    database = folder / ".swarm" / "memory.db"
    with ExitStack() as held:
        match condition:
            case "locked":
                held.enter_context(writer_lock(database, 5))
            case "missing":
                for path in database.parent.iterdir():
                    path.unlink()
            case "corrupt":
                database.write_bytes(database.read_bytes()[:100] + os.urandom(20_000))
            case "empty":
                database.write_bytes(b"")
            case "not ours":
                database.write_bytes(b"somebody's text" * 1000)
            case "a link":
                database.rename(folder / "elsewhere.db")
                database.symlink_to(folder / "elsewhere.db")
            case _:
                pass
        yield {"no key": {"OPENAI_API_KEY": "sk-none"}, "locked": SOON}.get(condition, {})


def made(folder: Path, home: Path) -> None:
    folder.mkdir()
    environment = {**STATIC, "PATH": os.environ["PATH"], "HOME": str(home)}
    run([*CLI, "jobs", "work", "--until-idle"], cwd=folder, env=environment, check=True)


def copied(made_one: Path, folder: Path) -> Path:
    """Copy a project whose bank is not open, and record the copy's bank as this user's own."""
    subprocess.run(["cp", "-r", str(made_one), str(folder)], check=True)
    registry.forget(folder / ".swarm" / "memory.db")
    registry.begin(folder / ".swarm" / "memory.db")
    return folder


def test_a_hook_command_ends_with_code_0_in_its_time_and_says_nothing(tmp_path: Path, home: Path) -> None:
    made(tmp_path / "made", home)
    conditions = CONDITIONS if FULL else QUICK
    for number, condition in enumerate(conditions):
        folder = copied(tmp_path / "made", tmp_path / f"shop{number}")
        with broken(folder, condition) as more:
            project = HookProject(folder, home, more)
            project.transcript.parent.mkdir(parents=True)
            project.transcript.write_text("{}\n", encoding="utf-8")
            for verb in VERBS:
                began = time.monotonic()
                event = project.event(hook_event_name="UserPromptSubmit", prompt=TASK)
                done = project.run(
                    "-c", NO_ROOM * (condition == "full") + (HURRIED if FULL else UNHURRIED), verb, given=event
                )
                took = time.monotonic() - began
                assert is_in_time(took, OF_VERBS[verb][1] + START_S), (condition, verb)
                said = json.loads(done.stdout or "{}")
                is_strange = verb == "session-start" and condition in STRANGE
                assert (done.returncode, list(said)) == (0, ["systemMessage"] * is_strange), (condition, verb, done)


async def test_a_server_answers_a_hook_to_go_on(tmp_path: Path, home: Path) -> None:
    times: list[float] = []
    made(tmp_path / "made", home)
    for number, condition in enumerate(CONDITIONS):
        folder = copied(tmp_path / "made", tmp_path / f"shop{number}")
        storage = StorageSettings.model_validate({**settings_of().storage.model_dump(), "busy_timeout_s": 0.2})
        groups: dict[str, BaseModel] = {"storage": storage}
        if condition == "no key":
            hangs = {"provider": "openai", "model": "m", "dimensions": 8, "base_url": "http://127.0.0.1:9/v1"}
            groups["embedding"] = EmbeddingSettings.model_validate(hangs)
        place = place_of(folder, settings := settings_of().model_copy(update=groups))
        with broken(folder, condition):
            async with running(ServedBank(partial(open_toolbox, place, settings), root=folder)) as bank:
                for event in EVENTS:
                    given = {"hook_event_name": event, "session_id": "s1", "prompt": TASK, "tool_name": "Bash"}
                    began = time.monotonic()
                    with anyio.fail_after(HANG_S):
                        assert await answer_hook(bank.toolbox, given, "server", place, f"claude {event} 0") == {}
                    times.append(time.monotonic() - began)
    assert is_in_time(max(times), 6)
