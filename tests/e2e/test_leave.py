"""Who learns from the tasks of the real Claude Code, as its user said: the agent itself, or a model, later."""

import json
import re
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from claude_code import CLAUDE, ClaudeCode
from messages_api import Json, MessagesApi, Say, Turn, Use, bash
from patience import AT_FULL_LENGTH
from sessions import IN_CLAUDE_CODE, swarm_memory, wait_for_processes

from swarm_memory.tools.learn.worth import QUESTION

pytestmark = IN_CLAUDE_CODE

TASK = "Tell me which answer the settings of this shop hold"
WORK: list[Turn] = [
    bash("cat settings.ini"),
    bash("ls"),
    bash("ls config"),
    bash("cat config/settings.ini"),
    Say("The answer is 42."),
]
ITEM = {
    "title": "Settings of the shop stand in its config folder",
    "description": "Of use when a setting is looked for.",
    "content": "1. Look into the folder config first\n2. Read settings.ini there",
}
ANSWER = Use(
    "mcp__swarm-memory__distill_memories",
    {"verdict": "Success", "confidence": 0.9, "reasons": ["The file was read"], "items": [ITEM]},
)


@dataclass
class Answering(MessagesApi):
    """An agent that names in its answer the transcript and the task of the question."""

    def take(self, body: Json) -> Turn:
        turn = super().take(body)
        if not (isinstance(turn, Use) and turn.tool == ANSWER.tool):
            return turn
        told = re.search(r"transcript_path '([^']+)' and task_id '([^']+)'", self.text_of(-1))
        assert told is not None, self.text_of(-1)
        return replace(turn, input=turn.input | {"transcript_path": told[1], "task_id": told[2]})


def worked(tmp_path: Path, way: str, script: list[Turn], *prompts: str) -> tuple[Path, MessagesApi]:
    """Let a session work in a project whose user has answered who learns; return the project and the API."""
    project, home = tmp_path / "shop", tmp_path / "home"
    (project / "config").mkdir(parents=True)
    (project / "config" / "settings.ini").write_text("answer = 42\n")
    (home / ".config" / "swarm-memory").mkdir(parents=True)
    (home / ".config" / "swarm-memory" / "config.yaml").write_text(f"chat: {{learn_with: {way}}}\n")
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    swarm_memory(project, "install", "--project")
    with Answering(script) as api:
        claude = ClaudeCode(home, project, api.url)
        (claude.commands() / "claude").symlink_to(CLAUDE)
        for number, prompt in enumerate(prompts):
            run = claude.run(prompt, *(["--continue"] if number else []))
            assert run.code == 0, run.stderr + run.stdout
            wait_for_processes(project)
    return project, api


def memories(project: Path) -> list[Any]:
    return json.loads(swarm_memory(project, "memories", "list", "--json"))


def test_the_agents_own_items_are_kept_and_it_is_asked_once_a_task(tmp_path: Path) -> None:
    script = [*WORK, ANSWER, Say("Noted."), *WORK]
    project, api = worked(tmp_path, "agent", script, TASK, "now check that once more")
    asked = [place for place in range(len(api.requests)) if QUESTION in api.text_of(place)]
    assert asked[:1] == [len(WORK)]
    assert len(api.requests) == len(script), "not asked about the same task again"
    (item,) = memories(project)
    assert item["title"] == ITEM["title"]
    assert (item["provenance"]["judge"], item["provenance"]["distiller"]) == ("agent", "agent")


@pytest.mark.parametrize(
    ("way", "work"),
    [
        pytest.param("rules", WORK, id="no leave"),
        pytest.param("agent", [WORK[3], WORK[4]], id="short", marks=AT_FULL_LENGTH),
    ],
)
def test_without_leave_or_after_a_short_task_nothing_is_asked(tmp_path: Path, way: str, work: list[Turn]) -> None:
    _, api = worked(tmp_path, way, work, TASK)
    assert len(api.requests) == len(work)
    assert not any(QUESTION in api.text_of(place) for place in range(len(api.requests)))


def test_with_leave_the_users_own_claude_code_is_shown_the_task_in_the_background(tmp_path: Path) -> None:
    project, api = worked(tmp_path, "claude", WORK, TASK)
    assert len(api.requests) == len(WORK), "nothing was asked in the session"
    shown = [request for request in api.side_requests if "cat config/settings.ini" in json.dumps(request["messages"])]
    assert shown
    for request in shown:
        assert "haiku" in request["model"]
        assert {tool["name"] for tool in request.get("tools", [])} <= {"StructuredOutput"}
    (day,) = json.loads(swarm_memory(project, "metrics", "--json"))["chat_days"]
    assert day["tokens"] > 0
