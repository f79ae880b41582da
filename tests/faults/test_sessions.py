"""Many sessions and calls, as an editor makes them in weeks: no process, file, thread or memory is left behind."""

import asyncio
import os
import statistics
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hook_project import HookProject, wait_for_processes
from made_work import lesson
from patience import FULL
from stdio_server import Server

from swarm_memory.server.storage.engine.files import size_of
from tests.faults.rig import HERE, fill, filled, inspected, is_left_alone, opened

pytestmark = [
    pytest.mark.fault,
    pytest.mark.skipif(sys.platform != "linux", reason="processes and their files are looked up in /proc"),
]

CALLS = 100_000
IN_FLIGHT = 16


def state(server: Server) -> Counter[str]:
    """Return resident kB, open files and threads."""
    place = Path(f"/proc/{server.process.pid}")
    resident = int((place / "statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
    files, threads = len(list((place / "fd").iterdir())), len(list((place / "task").iterdir()))
    return Counter(resident=resident, files=files, threads=threads)


@contextmanager
def serving(project: HookProject, *options: str) -> Generator[Server]:
    """Run a server that ends by itself when its input does; with options of its own, it answers no hooks."""
    with project.serving(*options, listens=not options) as server:
        yield server
        assert server.process.stdin is not None
        server.process.stdin.close()
        assert server.process.wait(20) == 0


def one_session(project: HookProject, number: int) -> None:
    """Do what a host does in a session: start hook, server, hooks of a turn, end hook, closing the input."""

    def hook(verb: str) -> None:
        of_event = {"source": "startup", "prompt": "Make the tests pass", "tool_name": "Bash"}
        name = {"prompt": "UserPromptSubmit", "before-tool": "PreToolUse"}.get(verb, verb)
        project.hook(verb, project.event(session_id=f"s{number}", hook_event_name=name, **of_event)).check_returncode()

    hook("session-start")
    with serving(project) as server:
        for verb in ("prompt", "before-tool", "stop"):
            hook(verb)
        assert not server.call("memory_status").get("isError")
        hook("session-end")


async def test_sessions_leave_no_process_and_no_lock(tmp_path: Path, home: Path) -> None:
    project = HookProject.made(tmp_path / "shop", home)
    async with opened(project.database) as store:
        await fill(store, 20)
    for number in range(20 if FULL else 2):
        await asyncio.to_thread(one_session, project, number)
    await asyncio.to_thread(wait_for_processes, project.root)
    assert is_left_alone(project.database)
    found = await inspected(project.database)
    assert found.sound, found
    assert not project.sockets()


def asked(number: int) -> tuple[str, dict[str, Any]]:
    """Return the tool and the arguments of a call of the soak test."""
    about = f"the token of session {number % 97}"
    match number % 20:
        case 3 | 11:
            call = {"tool_name": "Bash", "input": f"make {number % 53}", "output": "done", "success": number % 3 > 0}
            return "log_tool_call", {"calls": [call]}
        case 7:
            return "memory_status", {}
        case 13:
            return "retrieve_tool_memory", {"task": f"build {about}"}
        case 17:
            return "manage_memories", {"action": "list", "limit": 5}
        case _:
            return "retrieve_memories", {"query": f"retry {about}"}


def learn_and_forget(server: Server, number: int) -> None:
    learned = server.call("distill_memories", **lesson(f"soak-{number}", f"part {number}"))["structuredContent"]
    assert not server.call("manage_memories", action="forget", ids=learned["stored"]).get("isError"), learned


@pytest.mark.skipif(not FULL, reason="make faults runs it: it takes minutes")
async def test_a_hundred_thousand_calls_leave_memory_files_threads_and_log_flat(database: Path, home: Path) -> None:
    await filled(database, 500)
    samples, largest_log, failed = list[tuple[int, Counter[str]]](), 0, 0
    with serving(HookProject(database.parent.parent, home), "--set", f"storage.project={HERE.project}") as server:
        for start in range(0, CALLS, IN_FLIGHT):
            for number in range(start, start + IN_FLIGHT):
                name, arguments = asked(number)
                server.request("tools/call", {"name": name, "arguments": arguments})
            answers = [server.read() for _ in range(IN_FLIGHT)]
            failed += sum("error" in each or bool(each["result"].get("isError")) for each in answers)
            largest_log = max(largest_log, size_of(f"{database}-wal"))
            if start % (64 * IN_FLIGHT) == 0:
                learn_and_forget(server, start)
                samples.append((start, state(server)))
    # The bank grows with its records; at first, caches of words, texts and pages fill up.
    warm = [(number, state) for number, state in samples if number >= CALLS // 2]
    numbers, kilobytes = zip(*((number, state["resident"]) for number, state in warm), strict=True)
    slope = 1000 * statistics.linear_regression(numbers, kilobytes).slope
    grown = Counter({name: warm[-1][1][name] - warm[0][1][name] for name in ("files", "threads")})
    assert failed == 0
    assert slope < 100
    assert grown["files"] <= 1
    assert grown["threads"] <= 1
    assert largest_log < 64 * 1024 * 1024
