"""The real Claude Code: a command fails as it did last week, and the model reads what ended it beside the failure."""

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from messages_api import Say, Turn, bash
from record_demo import SCRIPT, TASK
from sessions import IN_CLAUDE_CODE, SETUP, checkout, run_session, swarm_memory

pytestmark = IN_CLAUDE_CODE

TOLD = "PostToolUseFailure:Bash hook additional context"
TESTS = "python -m pytest -q"
THIS_WEEK: list[Turn] = [bash("ls shop"), bash("cat pytest.ini"), bash(TESTS), bash(TESTS), bash("ls x"), Say("I see.")]


def a_week_earlier(transcript: Path) -> None:
    """Move every time of a transcript to the week before."""

    def earlier(found: re.Match[str]) -> str:
        at = datetime.fromisoformat(found[0]) - timedelta(days=7)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    text = transcript.read_text(encoding="utf-8")
    transcript.write_text(re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", earlier, text), encoding="utf-8")


def since_result(request: dict[str, Any], number: int) -> str:
    """Return what a request says from the result of the `number`-th tool call on."""
    messages = request["messages"]
    results = [at for at, message in enumerate(messages) if '"tool_result"' in json.dumps(message)]
    return json.dumps(messages[results[number - 1] :])


def test_what_ended_an_error_last_week_stands_beside_the_third_command_that_fails_with_it(tmp_path: Path) -> None:
    project, home = checkout(tmp_path / "shop"), tmp_path / "home"
    _, claude = run_session(project, home, SCRIPT, TASK)
    (last_week,) = claude.transcripts()
    a_week_earlier(last_week)
    checkout(project)
    swarm_memory(project, "install", "--project")
    swarm_memory(project, "learn", str(last_week))
    (memory,) = json.loads(swarm_memory(project, "memories", "list", "--json"))
    api, _ = run_session(project, home, THIS_WEEK, "Have a look around and report")
    assert not any(TOLD in api.text_of(place) for place in range(3)), "nothing failed yet"
    beside = since_result(api.requests[3], 3)
    assert "config/test.toml not found" in beside
    told = beside.partition(TOLD)[2]
    assert SETUP in told
    assert memory["id"] in told
    assert api.text_of(5).count(TOLD) == 1, "once for an error, and nothing for another one"
