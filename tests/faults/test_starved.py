"""Processes short of memory or processor time: errors say what is missing, nothing acknowledged is lost."""

import asyncio
import os
import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from made_work import lesson
from patience import FULL, HANG_S
from stdio_server import Server

from tests.faults.rig import HERE, Crowd, environment, filled, inspected, made_item, nothing_is_lost, present, sentence

pytestmark = [
    pytest.mark.fault,
    pytest.mark.skipif(sys.platform != "linux", reason="limits of memory as Linux counts them"),
]

CLI = [sys.executable, "-I", "-m", "swarm_memory.server.cli", "--set", f"storage.project={HERE.project}"]
CAP_MB = 512


def call(server: Server, name: str, **arguments: Any) -> tuple[dict[str, Any], str]:
    """Return a tool's answer (empty if it refused) and the text of its refusal."""
    number = server.request("tools/call", {"name": name, "arguments": arguments})
    answer = server.read()
    if "result" not in answer:
        assert answer["id"] in (number, None), "of what is not read no id is known"
        return {}, str(answer.get("error", {}).get("message"))
    assert answer["id"] == number
    result = answer["result"]
    return ({}, result["content"][0]["text"]) if result.get("isError") else (result["structuredContent"], "")


def with_memory(megabytes: int) -> Callable[[], None]:
    """Return what a process must do before it begins to limit its memory."""
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))


@contextmanager
def capped_server(folder: Path, megabytes: int) -> Generator[Server]:
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(
        [*CLI, "serve"], cwd=folder, env=environment(MALLOC_ARENA_MAX="1"), stdin=pipe, stdout=pipe, stderr=null,
        preexec_fn=with_memory(megabytes),
    ) as process:  # fmt: skip
        try:
            server = Server(process)
            server.initialize()
            yield server
        finally:
            process.kill()


async def test_a_server_with_little_memory_refuses_what_is_too_large_and_keeps_the_rest(tmp_path: Path) -> None:
    chance, stored, refusals = random.Random(9), list[str](), list[str]()
    calls = 0
    for cap in (CAP_MB, *((448, 480, 512) if FULL else ())):
        with capped_server(tmp_path, cap) as server:
            for number in range(8 if FULL else 3):
                name = f"part {cap} {calls}"
                size = (10, 4_000_000, 100, 7_000_000)[number % 4] if number < 4 else chance.randint(1, 7_000_000)
                learned = lesson(name, sentence(chance), "a word " * (size // 7))
                answer, refusal = call(server, "distill_memories", **learned)
                stored += answer.get("stored", [])
                refusals += [refusal] if refusal else []
                steps = [{"role": "user", "content": "x"}] * chance.randint(1, 150_000)
                _, refusal = call(server, "learn_from_trajectory", task_id=f"{name} steps", task="Mend", steps=steps)
                refusals += [refusal] if refusal else []
                calls += 2
            asked = (call(server, "memory_status") for _ in range(3))  # what a large call held is released after it
            assert any(status for status, _ in asked)
    database = tmp_path / ".swarm" / "memory.db"
    found, there = await inspected(database), await present(database, stored)
    assert refusals
    assert all("memory" in refusal for refusal in refusals), refusals
    assert stored
    assert len(there) == len(stored)
    assert found.sound, found


async def test_commands_with_little_memory_end_with_a_word_and_a_whole_bank(database: Path, tmp_path: Path) -> None:
    chance = random.Random(10)
    await filled(database, 2000 if FULL else 50)
    items = [made_item(f"Imported {number}", content="a word " * 500) for number in range(3000 if FULL else 100)]
    export = tmp_path / "export.jsonl"
    export.write_text("".join(item.model_dump_json() + "\n" for item in items), "utf-8")
    exporting = ("memories", "export", "-o", str(tmp_path / "out.jsonl"))
    commands = (("import", str(export)), ("bank", "reembed", "--indexes"), ("consolidate",), exporting)
    for number in range(30 if FULL else 1):
        command = commands[number % len(commands)]
        megabytes = CAP_MB if number < len(commands) else chance.choice((320, 384, 448, CAP_MB))
        done = await asyncio.to_thread(
            subprocess.run, [*CLI, *command], cwd=tmp_path, env=environment(), capture_output=True, text=True,
            timeout=HANG_S, preexec_fn=with_memory(megabytes),
        )  # fmt: skip
        # numpy's library itself reports what it lacks, and ends with SIGINT
        if not (done.returncode and "OpenBLAS" in done.stderr):
            assert done.returncode in (0, 1, 3, 4), (command, megabytes, done.stderr)
            assert not re.search("internal error|Traceback", done.stderr), (command, megabytes, done.stderr)
        if done.returncode == 0 and command[0] == "import":
            assert len(await present(database, [item.id for item in items[:500]])) == min(500, len(items))
    found = await inspected(database)
    assert found.sound, found


async def test_writers_that_hardly_get_the_processor_lose_nothing(database: Path) -> None:
    seconds, chance = (20.0 if FULL else 1.5), random.Random(11)
    crowd, burners = Crowd(niceness=19), list[subprocess.Popen[bytes]]()
    for number in range(6):
        crowd.add("write" if number < 4 else "read", database, "auto", number, 0)
    crowd.wait(lambda: len(crowd.said("ready")) >= 6, 120)
    try:
        for _ in range(2 * (os.cpu_count() or 1) if FULL else 1):
            burners.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            await asyncio.sleep(chance.uniform(0.3, 1))
            crowd.replace_one("write", chance)
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
        await asyncio.to_thread(crowd.end)
    assert await nothing_is_lost(database, crowd)
    assert {line[0] for line in crowd.said("error")} <= {"StoreBusy"}
