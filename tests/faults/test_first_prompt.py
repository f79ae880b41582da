"""The first prompt of a real Claude Code session on a machine that has no time: its notes are there all the same."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from claude_code import ClaudeCode
from hook_project import DEMO
from messages_api import MessagesApi, Say
from patience import FULL
from sessions import IN_CLAUDE_CODE, NEXT_TASK, NOTES, checkout, swarm_memory, wait_for_processes

from swarm_memory.server.missed import missed

pytestmark = [
    pytest.mark.fault,
    pytest.mark.skipif(not FULL, reason="make faults runs it: it keeps every processor busy"),
    *IN_CLAUDE_CODE,
]

SESSIONS = BURNERS = 20


@contextmanager
def burning(count: int) -> Generator[None]:
    """Keep every processor busy with so many processes."""
    burners = [subprocess.Popen([sys.executable, "-I", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in burners:
            each.kill()
            each.wait()


def test_first_prompts_have_their_notes_while_the_machine_is_busy(
    tmp_path: Path, record: Callable[[str, str], None]
) -> None:
    shop, home = checkout(tmp_path / "shop"), tmp_path / "home"
    home.mkdir()
    swarm_memory(shop, "install", "--project")
    swarm_memory(shop, "learn", str(DEMO))
    noted, took = 0, list[float]()
    with burning(BURNERS):
        for _ in range(SESSIONS):
            with MessagesApi([Say("I see.")]) as api:
                began = time.monotonic()
                assert ClaudeCode(home, shop, api.url).run(NEXT_TASK).code == 0
                took.append(time.monotonic() - began)
            noted += NOTES in api.text_of(0)
        load = os.getloadavg()[0]
    wait_for_processes(shop)
    record(
        "C5 load",
        f"{noted} of {SESSIONS} first prompts had their notes beside {BURNERS} burners (load {load:.0f}), "
        f"session p50 {sorted(took)[len(took) // 2]:.1f} s; missed: {sum(each.times for each in missed(shop))}",
    )
    assert noted == SESSIONS
