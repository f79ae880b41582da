"""A path from outside leads only where transcripts may be, and no link in `.swarm/` leads out of it."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from claude_lines import prompt, says, write
from forked import CLI, run
from hook_project import HookProject

from swarm_memory.server.config import resolve_settings
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.server.location import log_line
from tests.abuse.banks import abused

pytestmark = pytest.mark.attack

SECRET = "quetzalcoatl"
RECORD = json.dumps({"id": "t-1", "task": f"Mend {SECRET}", "steps": [{"role": "assistant", "content": SECRET}]})


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project, next to which there is a file that is none of its business."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.jsonl").write_text(RECORD, encoding="utf-8")
    folder = tmp_path / "shop"
    (folder / "runs").mkdir(parents=True)
    return folder


def escapes(shop: Path) -> Iterator[str]:
    """Yield names that lead out of a project, or to something that is not a file."""
    outside = shop.parent / "outside"
    (shop / "link.jsonl").symlink_to(outside / "secret.jsonl")
    (shop / "folder").symlink_to(outside)
    (shop / "loop.jsonl").symlink_to("loop.jsonl")
    os.mkfifo(shop / "pipe.jsonl")
    (shop / "runs" / "a.jsonl").mkdir()
    secret = f"{outside}/secret.jsonl"
    yield from (secret, f"{shop}/../outside/secret.jsonl", f"{shop}/runs/../../outside/secret.jsonl")
    yield from (f"{shop}/link.jsonl", f"{shop}/folder/secret.jsonl", f"{shop}/loop.jsonl", f"{shop}/pipe.jsonl")
    yield from ("../outside/secret.jsonl", "~root/secret.jsonl", "~nobody-here/x.jsonl", "~/secret.jsonl")
    yield from (f"{secret}\0", f"{shop}\0/../outside/secret.jsonl", "file:///etc/passwd.json", "\\\\host\\x.json")
    yield from ("//etc//passwd.json", "/dev/zero", "/dev/stdin.jsonl", "/proc/self/environ", f"{shop}/runs/a.jsonl")
    yield "/proc/self/environ/x.json"
    yield from ("", " ", ".", "/", ".jsonl", "x" * 5000 + ".jsonl", "\ud800.jsonl".encode("utf-8", "replace").decode())


async def test_no_name_reads_a_transcript_outside_the_project_and_the_hosts_folder(shop: Path) -> None:
    (shop / "runs" / "own.jsonl").write_text(RECORD, encoding="utf-8")
    async with abused(shop) as server:
        names = list(escapes(shop))
        (shop / "linked").mkdir()
        (shop / "linked" / "link.jsonl").symlink_to(shop.parent / "outside" / "secret.jsonl")
        folders = [f"{shop.parent}/outside", f"{shop}/folder", f"{shop}/linked", f"{shop}/../outside"]
        for tool in ("judge_trajectory", "distill_memories", "learn_from_trajectory"):
            for name in names:
                answer = await server.call(tool, {"transcript_path": name})
                assert '"is_error":true' in answer
                assert SECRET not in answer
        for folder in folders:
            answer = await server.call("learn_from_trajectory", {"transcript_path": folder})
            assert "must be in" in answer
            assert SECRET not in answer
        assert server.tally.internal == []
        assert server.tally.unanswered == []
        own = await server.call("judge_trajectory", {"transcript_path": str(shop / "runs" / "own.jsonl")})
        assert '"is_error":false' in own


async def test_no_name_indexes_copies_or_measures_what_lies_outside_the_project(shop: Path) -> None:
    (shop / "notes.md").write_text("# Own\n\nHow the shop is mended.\n", encoding="utf-8")
    (shop.parent / "outside" / "notes.md").write_text(f"# Other\n\nHow {SECRET} is mended.\n", encoding="utf-8")
    async with abused(shop) as server:
        names = [name for name in escapes(shop) if name.strip() not in ("", ".", f"{shop}/runs/a.jsonl")]
        calls: dict[str, Callable[[str], dict[str, Any]]] = {
            "index_sources": lambda name: {"kind": "document", "path": name},
            "run_matts": lambda name: {"task": "x", "runner": "command", "command": "cat notes.md", "folder": name},
            "run_benchmark": lambda name: {"options": {"dataset": "file", "path": name}},
        }
        for tool, arguments in calls.items():
            for name in names:
                answer = await server.call(tool, arguments(name))
                assert '"is_error":true' in answer, f"{tool} {name}: {answer[:500]}"
                assert SECRET not in answer
        await server.call("index_sources", {"kind": "document"})
        found = await server.call("search_sources", {"query": "how is it mended", "kind": "document"})
        assert server.tally.internal == []
    assert "How the shop is mended" in found
    assert SECRET not in found


def test_backups_and_tokens_of_the_bank_do_not_go_where_a_link_leads(shop: Path) -> None:
    outside = shop.parent / "outside"
    run_command(shop, "jobs", "work", "--until-idle")
    before = sorted(path.name for path in outside.iterdir())
    (shop / ".swarm" / "backups").symlink_to(outside)
    (shop / ".swarm" / "there.db").symlink_to(outside / "stolen.db")
    for words in (("backup",), ("backup", ".swarm/there.db"), ("restore", ".swarm/backups/secret.jsonl", "--yes")):
        done = run_command(shop, "bank", *words)
        assert "is now" not in done.stderr, "a command that moved refuses nothing by itself"
        assert done.returncode != 0
        assert SECRET not in done.stdout + done.stderr
    after = sorted(path.name for path in outside.iterdir())
    assert after == before


def run_command(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return run([*CLI, *words], cwd=folder, text=True)


def test_the_subagents_of_a_session_are_not_read_through_a_link(shop: Path) -> None:
    outside, agents = shop.parent / "outside", shop / "s1" / "subagents"
    side: dict[str, Any] = {"isSidechain": True, "agentId": "a77"}
    session = write(shop / "s1.jsonl", [prompt("Mend the orders of the shop"), says({"type": "text", "text": "Done."})])
    agent = write(outside / "agent-a77.jsonl", [prompt("Find all users of login()", **side), says(**side)])
    agents.mkdir(parents=True)
    (agents / agent.name).write_bytes(agent.read_bytes())
    assert len(list(read_trajectories(session))) == 2, "what lies there itself is read"
    (agents / agent.name).unlink()
    (agents / agent.name).symlink_to(agent)
    os.mkfifo(agents / "agent-b.jsonl")
    assert len(list(read_trajectories(session))) == 1
    agents.rename(shop / "former")
    agents.symlink_to(outside)
    assert len(list(read_trajectories(session))) == 1


@pytest.mark.parametrize("verb", ["stop", "session-end"])
def test_no_hook_queues_or_learns_from_a_transcript_outside(shop: Path, verb: str) -> None:
    run_command(shop, "jobs", "work", "--until-idle")
    project = HookProject(shop, Path(os.environ["HOME"]))
    names = list(escapes(shop))
    with project.no_workers_left():
        for name in names:
            if "\0" in name or not os.path.lexists(name):
                continue
            done = project.hook(verb, project.event(transcript_path=name))
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert project.rows("SELECT * FROM jobs") == []
    assert SECRET not in run_command(shop, "memories", "list", "--json").stdout


def test_a_worker_that_is_given_a_session_to_queue_takes_no_transcript_outside(shop: Path) -> None:
    """Nor does the worker make a bank for one."""
    secret = shop.parent / "outside" / "secret.jsonl"
    done = run_command(shop, "jobs", "work", "--until-idle", "--session", "s1", "--transcript", str(secret))
    assert SECRET not in done.stdout + done.stderr
    assert SECRET not in run_command(shop, "memories", "list", "--json").stdout


def test_a_swarm_folder_that_is_a_link_gets_no_log_and_gives_no_settings(shop: Path) -> None:
    outside = shop.parent / "outside"
    (outside / "config.yaml").write_text("retrieve: {k: 7}", encoding="utf-8")
    (shop / ".swarm").symlink_to(outside)
    with pytest.raises(OSError, match="symbolic link"):
        log_line(shop / ".swarm", "server", "fault")
    resolved = resolve_settings(shop)
    assert (resolved.settings.retrieve.k, "symbolic link" in resolved.notices[0]) == (3, True)
    assert sorted(path.name for path in outside.iterdir()) == ["config.yaml", "secret.jsonl"]


def test_settings_are_not_read_through_a_link(shop: Path) -> None:
    (shop / ".swarm").mkdir()
    (shop / ".swarm" / "config.yaml").symlink_to(shop.parent / "outside" / "secret.jsonl")
    (notice,) = resolve_settings(shop).notices
    assert ("symbolic link" in notice, SECRET in notice) == (True, False)
