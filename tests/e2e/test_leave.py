"""Who learns from the tasks of the real Claude Code, as its user chose: the agent itself, or a model later."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hook_project import wait_for_processes
from patience import AT_FULL_LENGTH

from swarm_memory.server.hooks.events import ANSWERED_WELL
from swarm_memory.tools.learn.worth import QUESTION
from tests.e2e.claude_code import CLAUDE, ClaudeCode, write_commands
from tests.e2e.messages_api import MessagesApi, Say, Turn, bash
from tests.e2e.sessions import IN_CLAUDE_CODE, NOTE, TEACH, connected, run_session, swarm_memory, written

pytestmark = IN_CLAUDE_CODE

FAILING = bash("shopctl answer")
TASK = "Tell me which answer the settings of this shop hold"
WORK: list[Turn] = [
    bash("cat settings.ini"),
    bash("ls"),
    bash("ls config"),
    bash("cat config/settings.ini"),
    Say("The answer is 42."),
]


def a_project(tmp_path: Path, way: str) -> tuple[Path, Path]:
    """Return a project whose user has answered who learns, and the user's home."""
    project, home = tmp_path / "shop", tmp_path / "home"
    (project / "config").mkdir(parents=True)
    (project / "config" / "settings.ini").write_text("answer = 42\n")
    (home / ".config" / "swarm-memory").mkdir(parents=True)
    (home / ".config" / "swarm-memory" / "config.yaml").write_text(f"chat: {{learn_with: {way}}}\n")
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    swarm_memory(project, "install", "--project")
    return project, home


def worked(tmp_path: Path, way: str, script: list[Turn]) -> tuple[Path, MessagesApi]:
    """Let a session work in a project whose user has answered who learns; return the project and the API."""
    project, home = a_project(tmp_path, way)
    (write_commands(home / "bin") / "claude").symlink_to(CLAUDE)
    return project, run_session(project, home, script, TASK)[0]


def memories(project: Path) -> list[Any]:
    return json.loads(swarm_memory(project, "memories", "list", "--json"))


def test_a_person_is_answered_and_the_agent_asked_once_after_that_what_its_task_taught(tmp_path: Path) -> None:
    project, home = a_project(tmp_path, "agent")
    with MessagesApi([connected(home), FAILING, written(home), Say("The answer is 42."), TEACH]) as api:
        screen = ClaudeCode(home, project, api.url).sit_before(TASK, until=lambda text: ANSWERED_WELL in text)
        wait_for_processes(project)
    assert QUESTION in api.text_of(4)
    assert len(api.requests) == 5, "its call ends the turn"
    assert screen.rindex("The answer is 42.") < screen.rindex(ANSWERED_WELL)
    (item,) = memories(project)
    assert (item["title"], item["provenance"]["distiller"]) == (NOTE["title"], "agent")


def test_without_a_person_nothing_is_asked_and_stdout_is_the_answer_to_the_byte(tmp_path: Path) -> None:
    project, home = a_project(tmp_path, "agent")
    with MessagesApi([connected(home), FAILING, written(home), Say("The answer is 42.")]) as api:
        run = ClaudeCode(home, project, api.url).run(TASK, "--output-format", "text")
        wait_for_processes(project)
    assert run.stdout == "The answer is 42.\n"
    assert len(api.requests) == 4


@pytest.mark.parametrize(
    ("way", "work"),
    [
        pytest.param("rules", WORK, id="no leave"),
        pytest.param("agent", [WORK[3], WORK[4]], id="short", marks=AT_FULL_LENGTH),
    ],
)
def test_without_leave_or_after_a_short_task_nothing_is_asked(tmp_path: Path, way: str, work: list[Turn]) -> None:
    _, api = worked(tmp_path, way, work)
    assert len(api.requests) == len(work)
    assert not any(QUESTION in api.text_of(place) for place in range(len(api.requests)))


def test_with_leave_the_users_own_claude_code_is_shown_the_task_in_the_background(tmp_path: Path) -> None:
    project, api = worked(tmp_path, "claude", WORK)
    assert len(api.requests) == len(WORK), "nothing was asked in the session"
    shown = [request for request in api.side_requests if "cat config/settings.ini" in json.dumps(request["messages"])]
    assert shown
    for request in shown:
        assert "haiku" in request["model"]
        assert {tool["name"] for tool in request.get("tools", [])} <= {"StructuredOutput"}
    (day,) = json.loads(swarm_memory(project, "metrics", "--json"))["chat_days"]
    assert day["tokens"] > 0
