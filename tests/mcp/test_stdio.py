"""The server as its own process: it answers over stdio, and always ends cleanly and quickly."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forked import CLI
from patience import FULL, HANG_S, is_in_time
from stdio_server import CLIENT, serving

from swarm_memory.server.location import locate, write_private

SERVE = [*CLI, "serve"]
END_LIMIT_S = 2.5
ORPHAN_LIMIT_S = 2.0


def test_it_lists_its_tools_and_answers_a_call(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        said = server.initialize()
        assert said["serverInfo"]["name"] == "swarm-memory"
        assert "retrieve_memories" in said["instructions"]
        assert "retrieve_memories" in {tool["name"] for tool in server.ask("tools/list", {})["tools"]}
        answer = server.call("retrieve_memories", query="fix the flaky date test")
        assert not answer.get("isError")
        assert answer["structuredContent"]["memories"] == []
        assert answer["structuredContent"]["reason"]
        assert not locate(tmp_path).folder.exists()
        server.call("remember", text="The shop's tests need a migrated database.")
        assert locate(tmp_path).database.is_file()


def test_what_goes_wrong_is_logged_next_to_the_bank_that_the_users_settings_name(tmp_path: Path, home: Path) -> None:
    write_private(home / ".config" / "swarm-memory" / "config.yaml", f"storage: {{db: {tmp_path / 'own' / 'bank.db'}}}")
    with serving(tmp_path) as server:
        server.initialize()
        server.call("remember", text="The shop's tests need a migrated database.")
        server.write(b'{"jsonrpc":"2.0","id":7,"result":1}\n')
        server.ask("ping", {})
    assert " server a response that is not JSON-RPC was ignored" in (tmp_path / "own" / "log").read_text("utf-8")


def test_sigint_followed_by_sigterm_still_writes_what_was_queued(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.initialize()
        server.call("remember", text="The shop's tests need a migrated database.")
        before = server.call("memory_status")["structuredContent"]["retrievals"]
        server.call("retrieve_memories", query="fix the flaky date test")
        server.process.send_signal(signal.SIGINT)
        server.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        server.process.wait(HANG_S)
        assert is_in_time(time.monotonic() - began, END_LIMIT_S)
        assert server.process.returncode == 0
    with serving(tmp_path) as server:
        server.initialize()
        assert server.call("memory_status")["structuredContent"]["retrievals"] == before + 1


@pytest.mark.fault
@pytest.mark.skipif(sys.platform != "linux", reason="waits for a process that is no child by its pidfd")
def test_it_ends_when_its_parent_is_killed_though_a_sibling_holds_the_pipe(tmp_path: Path) -> None:
    assert all(_follows_its_parent(tmp_path) for _ in range(20 if FULL else 1))


def _follows_its_parent(folder: Path) -> bool:
    """Kill the parent of a server while its input stays open; return whether the server ends within 2 s."""
    read_end, write_end = os.pipe()
    code = f"import subprocess, sys, time; p = subprocess.Popen({SERVE!r}, stdin={read_end}, pass_fds=[{write_end}])\n"
    code += "print(p.pid, flush=True); time.sleep(600)"
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, pass_fds=[read_end, write_end]
    ) as parent:
        try:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            message = {"jsonrpc": "2.0", "method": "initialize", "params": CLIENT, "id": 1}
            os.write(write_end, json.dumps(message).encode() + b"\n")
            assert json.loads(parent.stdout.readline())["id"] == 1
            parent.kill()
            parent.wait(HANG_S)
            is_gone = _gone_within(child, ORPHAN_LIMIT_S if FULL else HANG_S)
            if not is_gone:
                os.kill(child, signal.SIGKILL)
            return is_gone
        finally:
            parent.kill()
            os.close(read_end)
            os.close(write_end)


def _gone_within(pid: int, seconds: float) -> bool:
    """Wait for the end of a process that is not our child."""
    handle = os.pidfd_open(pid)
    try:
        ready, _, _ = select.select([handle], [], [], seconds)
        return bool(ready)
    finally:
        os.close(handle)


def test_a_wrong_setting_is_said_by_the_status_and_nothing_but_the_protocol_is_written(tmp_path: Path) -> None:
    (tmp_path / ".swarm").mkdir()
    (tmp_path / ".swarm" / "config.yaml").write_text("retrieve: {k: many}")
    with serving(tmp_path) as server:
        server.initialize()
        assert "it is 'many'" in server.call("memory_status")["content"][0]["text"]
        server.call("retrieve_memories", query="fix the flaky date test")
        server.call("retrieve_memories", qury="x")
        assert server.process.stdin is not None
        assert server.process.stdout is not None
        server.process.stdin.close()
        assert server.process.stdout.read() == b""


def test_a_client_that_reads_late_gets_every_answer_whole(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.initialize()
        asked = [server.request("tools/list", {}) for _ in range(20)]  # more than any pipe holds
        answers = [server.read() for _ in asked]
    assert sorted(each["id"] for each in answers) == asked
    assert len({json.dumps(each["result"]) for each in answers}) == 1


def test_the_bank_is_consolidated_by_itself_and_the_status_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fixed: dict[str, Any]
) -> None:
    monkeypatch.setenv("SWARM_MEMORY_CONSOLIDATE__RUN_EVERY_NEW_ITEMS", "1")
    with serving(tmp_path) as server:
        server.initialize()
        assert "0 new memories" in server.call("memory_status")["structuredContent"]["consolidation"]
        said = {"role": "user", "content": "don't edit the tables by hand, use the migration"}
        steps = [*fixed["steps"], said, {"role": "assistant", "content": "All right."}]
        learned = server.call("learn_from_trajectory", **{**fixed, "steps": steps})
        assert learned["structuredContent"]["consolidation_due"]
        jobs = server.call("job", action="list")["structuredContent"]["jobs"]
        (listed,) = [each for each in jobs if each["kind"] == "consolidate"]
        (job,) = server.call("job", action="result", job_id=listed["job_id"])["structuredContent"]["jobs"]
        assert (job["kind"], job["status"]) == ("consolidate", "completed")
        said = server.call("memory_status")["structuredContent"]["consolidation"]
        assert said.startswith("0 new memories; runs by itself at 1; last run ")


@pytest.mark.skipif(sys.platform != "linux", reason="wake-ups are counted by /proc")
def test_it_does_not_wake_up_while_nothing_happens(tmp_path: Path, rests: Callable[[int], bool]) -> None:
    with serving(tmp_path) as server:
        server.initialize()
        server.call("retrieve_memories", query="a flaky test")
        assert rests(server.process.pid)
