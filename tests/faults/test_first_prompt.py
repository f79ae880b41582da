"""The first prompt of a real Claude Code session on a machine that has no time: its notes are there all the same."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from claude_code import ClaudeCode
from hook_project import DEMO, wait_for_processes
from messages_api import MessagesApi, Say
from patience import FULL
from sessions import IN_CLAUDE_CODE, NEXT_TASK, NOTES, checkout, swarm_memory

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


def test_first_prompts_have_their_notes_while_the_machine_is_busy(tmp_path: Path) -> None:
    shop, home = checkout(tmp_path / "shop"), tmp_path / "home"
    home.mkdir()
    swarm_memory(shop, "install", "--project")
    swarm_memory(shop, "learn", str(DEMO))
    shown = 0
    with burning(BURNERS):
        for _ in range(SESSIONS):
            with MessagesApi([Say("I see.")]) as api:
                assert ClaudeCode(home, shop, api.url).run(NEXT_TASK).code == 0
            shown += NOTES in api.text_of(0)
    wait_for_processes(shop)
    assert shown == SESSIONS
