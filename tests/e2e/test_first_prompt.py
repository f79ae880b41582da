"""The real Claude Code with our hooks: the first prompt without a server, the next session, a failure of last week."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hook_project import HookProject, wait_for_processes
from patience import AT_FULL_LENGTH, FULL

from tests.e2e.claude_code import ClaudeCode
from tests.e2e.messages_api import MessagesApi, Say, Turn, bash
from tests.e2e.sessions import (
    IN_CLAUDE_CODE,
    NEXT_TASK,
    NOTE,
    NOTES,
    SETUP,
    TEACH,
    checkout,
    connected,
    learn_demo,
    run_session,
    swarm_memory,
)
from tests.e2e.shop_project import SCRIPT, TASK

pytestmark = IN_CLAUDE_CODE

SESSIONS = BURNERS = 20


def with_server(settings: Path, command: str) -> None:
    """Make the host start another command as the server."""
    servers: dict[str, Any] = json.loads(settings.read_text())
    servers["mcpServers"]["swarm-memory"] |= {"command": "sh", "args": ["-c", command]}
    settings.write_text(json.dumps(servers))


@pytest.mark.parametrize("command", ["exec sleep 60", pytest.param("exit 1", marks=AT_FULL_LENGTH)])
def test_hooks_do_all_of_it_while_the_server_does_not_answer(tmp_path: Path, command: str) -> None:
    shop = checkout(tmp_path / "shop")
    swarm_memory(shop, "install", "--project")
    with_server(shop / ".mcp.json", command)
    known = learn_demo(shop)
    api, _ = run_session(shop, tmp_path / "home", SCRIPT, NEXT_TASK)
    assert SETUP in api.text_of(0)
    assert NOTES in api.text_of(0)
    (after,) = json.loads(swarm_memory(shop, "memories", "list", "--json"))
    assert after["id"] == known["id"]
    assert after["confidence"] > known["confidence"], "the session was learned from: it ended the same way"


def test_after_an_install_for_the_user_sessions_in_any_folder_are_learned_from(tmp_path: Path) -> None:
    shop, home, plain = checkout(tmp_path / "shop"), tmp_path / "home", tmp_path / "plain"
    home.mkdir()
    plain.mkdir()
    with MessagesApi([*SCRIPT, Say("Paris.")]) as api:
        for project, prompt in ((shop, TASK), (plain, "Tell me in one word what the capital of France is")):
            claude = ClaudeCode(home, project, api.url)
            command = ["swarm-memory", "install", "--user"]
            subprocess.run(command, cwd=project, env=claude.environment, check=True, capture_output=True)
            assert claude.run(prompt).code == 0
            wait_for_processes(project)
    for project, tasks in ((shop, 1), (plain, 1)):
        status = json.loads(swarm_memory(project, "status", "--json"))
        assert status["trajectories"] == tasks, project


@pytest.mark.fault
@pytest.mark.skipif(not FULL, reason="make faults runs it: it keeps every processor busy")
def test_first_prompts_have_their_notes_while_the_machine_has_no_time(tmp_path: Path) -> None:
    shop = checkout(tmp_path / "shop")
    swarm_memory(shop, "install", "--project")
    learn_demo(shop)
    burners = [subprocess.Popen([sys.executable, "-I", "-c", "while True: pass"]) for _ in range(BURNERS)]
    try:
        apis = [run_session(shop, tmp_path / "home", [Say("I see.")], NEXT_TASK)[0] for _ in range(SESSIONS)]
    finally:
        for each in burners:
            each.kill()
            each.wait()
    assert all(NOTES in api.text_of(0) for api in apis)


NEXT: list[Turn] = [bash(f"{SETUP} && python -m pytest -q", "As noted before."), Say("2 tests pass.")]
AGAIN: list[Turn] = [bash("python -m pytest -q"), Say("Still 2 passed.")]


def rows(project: Path, query: str) -> list[Any]:
    """Query the database."""
    return HookProject(project, project).rows(query)


def test_what_one_session_taught_is_in_the_prompt_of_the_next_and_a_continued_task_is_one_task(tmp_path: Path) -> None:
    shop, home = checkout(tmp_path / "shop"), tmp_path / "home"
    swarm_memory(shop, "install", "--project")
    script = [*SCRIPT[:-1], connected(home), TEACH, SCRIPT[-1]]
    first, _ = run_session(shop, home, script, TASK)
    assert "<swarm-memory-notes>" not in first.text_of(0)
    assert len(first.requests) == len(script), "what was taught is not asked for"
    calls = rows(shop, "SELECT tool_name, success FROM tool_calls WHERE tool_name = 'Bash' ORDER BY seq")
    assert [bool(success) for _, success in calls] == [False, False, False, True, True, True, True]
    jobs = json.loads(swarm_memory(shop, "jobs", "list", "--all", "--json"))
    learning = [job for job in jobs if job["kind"] == "learn"]
    assert {(job["status"], job["attempts"]) for job in learning} == {("completed", 1)}
    rest = {(job["kind"], job["status"]) for job in jobs if job["kind"] != "learn"}
    assert ("evaluate_tool_calls", "queued") in rest, "what followed a call is waited for before it is evaluated"
    (memory,) = json.loads(swarm_memory(shop, "memories", "list", "--json"))
    assert memory["content"] == NOTE["note"]
    assert json.loads(swarm_memory(shop, "status", "--json"))["trajectories"] == 1

    ((before,),) = rows(shop, "SELECT max(seq) FROM tool_calls")
    checkout(shop)
    second, _ = run_session(shop, home, [*NEXT, *AGAIN], NEXT_TASK, "now run the tests again")
    first_prompt = second.text_of(0)
    assert SETUP in first_prompt
    assert first_prompt.count(NOTES) == 1
    at_start, at_prompt = first_prompt.split("UserPromptSubmit hook additional context")
    assert f"- {NOTE['when']}\n" in at_start, "when it matters stands at the start"
    assert (SETUP in at_start, SETUP in at_prompt) == (False, True)
    assert (shop / "config" / "test.toml").exists()
    assert second.text_of(-1).count("<swarm-memory-notes>") == 2, "a task that goes on is shown nothing twice"
    later = rows(shop, f"SELECT task_id, count(*) FROM tool_calls WHERE seq > {before} GROUP BY task_id")
    assert [(task.rpartition(":")[2], count) for task, count in later] == [("1", 2)], "and is one task"


SHOWN = "PostToolUseFailure:Bash hook additional context"
TESTS = "python -m pytest -q"
THIS_WEEK: list[Turn] = [bash("ls shop"), bash("cat pytest.ini"), bash(TESTS), bash(TESTS), bash("ls x"), Say("I see.")]


def since_result(request: dict[str, Any], number: int) -> str:
    """Return the text of a request from the result of the `number`-th tool call on."""
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
