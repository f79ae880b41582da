"""The hook commands as real processes: quick, unharmed by the project they run in, never a fault of the host's."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from patience import HANG_S

from swarm_memory.server.storage.engine.lock import writer_lock

FORBIDDEN = {"mcp", "openai", "numpy", "pydantic", "aiosqlite", "asyncio", "anyio", "yaml", "click", "rich"}
DEMO = Path(__file__).parents[2] / "server" / "cli" / "demo" / "session.jsonl"


@dataclass(frozen=True)
class Shop:
    """A project, a host's folder with one transcript, and what hook commands are told of both."""

    root: Path
    config: Path
    transcript: Path
    extra: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def bank(self) -> Path:
        return self.root / ".swarm"

    @property
    def environment(self) -> dict[str, str]:
        told = {"CLAUDE_PROJECT_DIR": str(self.root), "CLAUDE_CONFIG_DIR": str(self.config)}
        return {"PATH": os.environ["PATH"], "HOME": str(self.config.parent), **told, **self.extra}

    def event(self, **changed: str) -> str:
        event = {"session_id": "s1", "transcript_path": str(self.transcript), "cwd": str(self.root), "reason": "other"}
        return json.dumps(event | changed)

    def run(self, *arguments: str, told: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run Python with arguments in the project, isolated as the installed hooks are."""
        return subprocess.run(
            [sys.executable, "-I", *arguments],
            cwd=self.root,
            env=self.environment,
            input=self.event() if told is None else told,
            capture_output=True,
            text=True,
            timeout=HANG_S,
        )

    def hook(self, verb: str, told: str | None = None) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "swarm_memory.server.hooks", verb, told=told)

    def cli(self, *arguments: str) -> str:
        done = self.run("-m", "swarm_memory.server.cli", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def log(self) -> str:
        path = self.bank / "log"
        return path.read_text(encoding="utf-8") if path.exists() else ""


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """A project without a bank."""
    root, config = tmp_path / "shop", tmp_path / "home" / ".claude"
    transcript = config / "projects" / "shop" / "s1.jsonl"
    for folder in (root, transcript.parent):
        folder.mkdir(parents=True)
    transcript.write_bytes(DEMO.read_bytes())
    return Shop(root, config, transcript)


@pytest.fixture
def learned(shop: Shop) -> Shop:
    """A project whose bank holds what the demo session taught."""
    shop.cli("learn", str(shop.transcript))
    return shop


@contextmanager
def no_workers_left(shop: Shop) -> Generator[None]:
    """Wait at the end until the worker that a SessionEnd started has ended (where /proc tells)."""
    yield
    deadline = time.monotonic() + HANG_S
    while any(works_in(process, shop.root) for process in Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < deadline, "the worker does not end"
        time.sleep(0.02)


def works_in(process: Path, folder: Path) -> bool:
    try:
        return (process / "cwd").readlink() == folder
    except OSError:
        return False


def test_hook_commands_import_nothing_heavy(shop: Shop) -> None:
    code = "import sys, swarm_memory.server.hooks.main, swarm_memory.tools.retrieve.preamble; print(*sys.modules)"
    modules = {name.partition(".")[0] for name in shop.run("-c", code).stdout.split()}
    assert modules & FORBIDDEN == set()
    assert "swarm_memory" in modules


def test_a_session_in_a_project_without_a_bank_starts_with_nothing_and_leaves_nothing(shop: Shop) -> None:
    for verb in ("session-start", "session-end"):
        done = shop.hook(verb)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(shop.root.iterdir()) == []


def test_a_session_starts_with_what_the_project_taught(learned: Shop) -> None:
    answer = json.loads(learned.hook("session-start").stdout)["hookSpecificOutput"]
    assert answer["hookEventName"] == "SessionStart"
    assert "cp config/test.example.toml config/test.toml" in answer["additionalContext"]
    assert len(answer["additionalContext"]) < 9000


def test_the_briefing_can_be_switched_off(learned: Shop) -> None:
    learned.extra["SWARM_MEMORY_HOOKS__BRIEFING_ITEMS"] = "0"
    assert learned.hook("session-start").stdout == ""


def test_the_end_of_a_session_starts_a_worker_that_learns_from_it(shop: Shop) -> None:
    shop.cli("status")
    with no_workers_left(shop):
        assert shop.hook("session-end").stdout == ""
    jobs = json.loads(shop.cli("jobs", "list", "--all", "--json"))
    assert [(job["key"], job["status"]) for job in jobs] == [("s1:all", "completed")]
    assert "SettingsError" in shop.cli("memories", "list", "--json")


def test_hooks_run_unharmed_in_a_folder_that_shadows_their_modules(learned: Shop) -> None:
    for name in ("json.py", "sqlite3.py", "os.py", "re.py", "swarm_memory/__init__.py", "server/__init__.py"):
        path = learned.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("raise SystemExit('shadowed')\n", encoding="utf-8")
    learned.extra["PYTHONPATH"] = str(learned.root)
    assert "additionalContext" in learned.hook("session-start").stdout
    with no_workers_left(learned):
        assert learned.hook("session-end").returncode == 0
    assert learned.log() == ""


def test_a_busy_database_costs_a_session_end_little_and_loses_nothing(shop: Shop) -> None:
    shop.cli("status")
    with no_workers_left(shop), writer_lock(shop.bank / "memory.db", 5):
        done = shop.hook("session-end")
        (spooled,) = (shop.bank / "spool").glob("*.json")
        mode = spooled.stat().st_mode & 0o777
    assert (done.returncode, done.stdout, mode) == (0, "", 0o600)
    shop.cli("jobs", "work", "--until-idle")
    assert list((shop.bank / "spool").iterdir()) == []
    assert "SettingsError" in shop.cli("memories", "list", "--json")


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0" + b"\xff" * 5000, b"no database", None])
def test_a_bad_database_never_reaches_the_host(shop: Shop, content: bytes | None) -> None:
    shop.bank.mkdir()
    if content is None:
        (shop.bank / "memory.db").symlink_to("/etc/hostname")
    else:
        (shop.bank / "memory.db").write_bytes(content)
    with no_workers_left(shop):
        for verb in ("session-end", "session-start"):
            done = shop.hook(verb)
            told = json.loads(done.stdout or "{}").get("systemMessage", "")
            assert (done.returncode, done.stderr) == (0, "")
            assert bool(told) == (verb == "session-start" and content != b"")
            assert shop.hook(verb).stdout == "", "it is said once"


def test_a_bank_that_came_with_a_clone_is_told_of_once_and_gets_not_even_a_log(learned: Shop, tmp_path: Path) -> None:
    clone = Shop(tmp_path / "clone", learned.config, learned.transcript)
    shutil.copytree(learned.root, clone.root)
    before = {path: path.read_bytes() for path in clone.bank.iterdir()}
    told = json.loads(clone.hook("session-start").stdout)
    assert told.keys() == {"systemMessage"}
    assert "swarm-memory trust" in told["systemMessage"]
    assert clone.hook("session-start").stdout == ""
    assert clone.hook("session-end").stdout == ""
    assert {path: path.read_bytes() for path in clone.bank.iterdir()} == before
    clone.cli("trust", "--yes")
    assert "test.example.toml" in clone.hook("session-start").stdout


def test_an_event_that_is_none_never_reaches_the_host(shop: Shop) -> None:
    shop.cli("status")
    for told in ("", "no json", "[]", "[" * 100_000, '{"session_id": 7}', "{}", '{"session_id": "../x"}'):
        for verb in ("session-start", "session-end", "no-such-verb"):
            done = shop.hook(verb, told)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "no-such-verb: KeyError" in shop.log()


def test_a_transcript_from_elsewhere_is_refused_with_a_reason_in_the_log(learned: Shop, tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_bytes(DEMO.read_bytes())
    assert learned.hook("session-end", learned.event(transcript_path=str(tmp_path / "other.jsonl"))).stdout == ""
    assert "transcript_path must lie in" in learned.log()
    assert json.loads(learned.cli("jobs", "list", "--all", "--json")) == []


def test_a_session_without_a_transcript_leaves_no_job_and_no_complaint(learned: Shop) -> None:
    assert (
        learned.hook("session-end", learned.event(transcript_path=f"{learned.config}/projects/none.jsonl")).stdout == ""
    )
    assert learned.log() == ""
