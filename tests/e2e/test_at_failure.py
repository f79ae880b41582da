"""The real Claude Code: a command fails as it did last week, and the model reads what ended it beside the failure."""

import json
from pathlib import Path
from typing import Any

from tests.e2e.messages_api import Say, Turn, bash
from tests.e2e.record_demo import SCRIPT, TASK
from tests.e2e.sessions import IN_CLAUDE_CODE, SETUP, TEACH, checkout, connected, run_session, swarm_memory

pytestmark = IN_CLAUDE_CODE

SHOWN = "PostToolUseFailure:Bash hook additional context"
TESTS = "python -m pytest -q"
THIS_WEEK: list[Turn] = [bash("ls shop"), bash("cat pytest.ini"), bash(TESTS), bash(TESTS), bash("ls x"), Say("I see.")]


def since_result(request: dict[str, Any], number: int) -> str:
    """Return what a request says from the result of the `number`-th tool call on."""
    messages = request["messages"]
    results = [at for at, message in enumerate(messages) if '"tool_result"' in json.dumps(message)]
    return json.dumps(messages[results[number - 1] :])


def test_what_was_noted_of_an_error_stands_beside_the_next_command_that_fails_with_it(tmp_path: Path) -> None:
    project, home = checkout(tmp_path / "shop"), tmp_path / "home"
    swarm_memory(project, "install", "--project")
    run_session(project, home, [connected(home), *SCRIPT[:-1], TEACH, SCRIPT[-1]], TASK)
    (memory,) = json.loads(swarm_memory(project, "memories", "list", "--json"))
    checkout(project)
    api, _ = run_session(project, home, [connected(home), *THIS_WEEK], "Have a look around and report")
    assert not any(SHOWN in api.text_of(place) for place in range(4)), "nothing failed yet"
    beside = since_result(api.requests[4], 4)
    assert "config/test.toml not found" in beside
    shown = beside.partition(SHOWN)[2]
    assert SETUP in shown
    assert memory["id"] in shown
    assert api.text_of(6).count(SHOWN) == 1, "once for an error, and nothing for another one"
