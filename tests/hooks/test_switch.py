"""If swarm-memory is switched off or a task is held out, hooks say nothing and leave nothing."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hook_project import NOTE, SAID, TASK, VERBS, HookProject
from patience import AT_FULL_LENGTH

from swarm_memory.server.missed_hooks import missed
from swarm_memory.server.switch import pause, resume, switched_off

OFF: dict[str, Callable[[HookProject], object]] = {
    "environment": lambda shop: shop.extra.update(SWARM_MEMORY_DISABLED="1"),
    "user's file": lambda shop: shop.configure("reasoningbank: {enabled: no}\n"),
    "project's file in flow style": lambda shop: shop.configure("{enabled: false}", users=False),
    "pause": lambda shop: pause(shop.root),
}


def state_of(shop: HookProject) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in shop.root.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("fixture", "switch"),
    [
        ("shop", "environment"),
        ("shop", "user's file"),
        ("shop", "pause"),
        ("learned", "project's file in flow style"),
        ("learned", "pause"),
    ],
)
def test_no_hook_says_or_writes_anything_where_it_is_switched_off(
    request: pytest.FixtureRequest, fixture: str, switch: str
) -> None:
    """If there is no bank yet, none is made; if there is one, nothing in it is shown or changed."""
    project: HookProject = request.getfixturevalue(fixture)
    OFF[switch](project)
    before = state_of(project)
    with project.no_workers_left():
        for verb in VERBS:
            given = project.event(hook_event_name="UserPromptSubmit", prompt=TASK, tool_name="Bash", tool_input={})
            assert project.printed(verb, given) == "", verb
    assert state_of(project) == before
    assert missed(project.root) == []


def test_a_server_answers_no_hook_where_it_is_switched_off_and_does_when_it_is_on_again(learned: HookProject) -> None:
    with learned.serving() as server:
        pause(learned.root)
        assert learned.prompt(patient=True) == ""
        answer = server.call("memory_status")
        assert answer["isError"]
        assert "switched off in this project, by `swarm-memory pause`" in json.dumps(answer)
        resume(learned.root)
        assert NOTE in learned.prompt(patient=True)
        assert learned.retrievals("s1")[0]["via"] == "server"


def test_what_was_paused_is_on_again_after_a_resume(learned: HookProject, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert pause(learned.root)
    assert not pause(learned.root), "it was off already"
    assert pause(other)
    assert learned.printed("session-start") == ""
    assert resume(learned.root)
    assert not resume(learned.root)
    assert SAID in learned.printed("session-start")
    assert switched_off(other) == "`swarm-memory pause`"
    assert pause(None)
    assert switched_off(learned.root) == "`swarm-memory pause --everywhere`"
    assert resume(None)
    assert (switched_off(other), switched_off(learned.root)) == (None, None)


def test_a_variable_that_says_no_switches_nothing_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "0", "false", "no", "OFF"):
        monkeypatch.setenv("SWARM_MEMORY_DISABLED", value)
        assert switched_off(tmp_path) is None
    monkeypatch.setenv("SWARM_MEMORY_DISABLED", "yes")
    assert switched_off(tmp_path) is not None


@pytest.mark.parametrize(
    "text",
    [
        "credit: {holdout_rate: 1.0}",
        pytest.param("{'credit': {holdout_rate: 1.0}}", marks=AT_FULL_LENGTH),
        pytest.param("credit:\n  holdout_rate: 1\n", marks=AT_FULL_LENGTH),
    ],
)
def test_a_held_out_session_gets_neither_briefing_nor_notes_however_the_rate_is_written(
    learned: HookProject, text: str
) -> None:
    assert SAID in learned.printed("session-start")
    assert NOTE in learned.prompt(session="before")
    learned.configure(text)
    assert learned.printed("session-start") == ""
    assert learned.prompt() == ""
    query = "SELECT type FROM events WHERE subject_id = 's1:1'"
    assert learned.rows(query) == [("task.injected",), ("task.withheld",)], "the first start, before the rate was set"


def test_the_name_of_a_folder_pauses_nothing_but_itself(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "a\n*\n"
    folder.mkdir()
    assert pause(folder)
    assert switched_off(folder) is not None
    assert switched_off(tmp_path) is None
    assert resume(folder)
    assert switched_off(folder) is None
