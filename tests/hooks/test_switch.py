"""Where swarm-memory is switched off or a task is held out: hooks say nothing, and nothing is left."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hook_project import NOTE, SAID, TASK, HookProject
from patience import AT_FULL_LENGTH

from swarm_memory.server.missed import missed
from swarm_memory.server.switch import pause, resume, switched_off

VERBS = ("session-start", "prompt", "before-tool", "stop", "session-end")


def in_environment(shop: HookProject) -> None:
    shop.extra["SWARM_MEMORY_DISABLED"] = "1"


def in_file(text: str, *, users: bool) -> Callable[[HookProject], None]:
    def written(shop: HookProject) -> None:
        file = shop.home / ".config" / "swarm-memory" / "config.yaml" if users else shop.bank / "config.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    return written


def paused(shop: HookProject) -> None:
    assert pause(shop.root)


def paused_everywhere(shop: HookProject) -> None:
    del shop
    assert pause(None)


OFF = {
    "environment": in_environment,
    "user's file": in_file("enabled: false\n", users=True),
    "project's file in flow style": in_file("{enabled: false}", users=False),
    "under the root key": in_file("reasoningbank: {enabled: no}\n", users=True),
    "pause": paused,
    "pause everywhere": paused_everywhere,
}


def state_of(shop: HookProject) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in shop.root.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("fixture", "switch"),
    [*(("shop", each) for each in OFF), ("learned", "project's file in flow style"), ("learned", "pause")],
)
def test_no_hook_says_or_writes_anything_where_it_is_switched_off(
    request: pytest.FixtureRequest, fixture: str, switch: str
) -> None:
    """Where there is no bank yet none is made, and where there is one nothing in it is shown or changed."""
    project: HookProject = request.getfixturevalue(fixture)
    OFF[switch](project)
    before = state_of(project)
    with project.no_workers_left():
        for verb in VERBS:
            given = project.event(hook_event_name="UserPromptSubmit", prompt=TASK, tool_name="Bash", tool_input={})
            done = project.hook(verb, given)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), verb
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
    assert learned.hook("session-start").stdout == ""
    assert resume(learned.root)
    assert not resume(learned.root)
    assert SAID in learned.hook("session-start").stdout
    assert switched_off(other) == "`swarm-memory pause`"
    assert resume(None)
    assert switched_off(other) is None


@pytest.mark.parametrize("value", ["", "0", "false", "no", "OFF"])
def test_a_variable_that_says_no_switches_nothing_off(learned: HookProject, value: str) -> None:
    learned.extra["SWARM_MEMORY_DISABLED"] = value
    assert SAID in learned.hook("session-start").stdout


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
    assert SAID in learned.hook("session-start").stdout
    assert NOTE in learned.prompt(session="before")
    in_file(text, users=True)(learned)
    assert learned.hook("session-start").stdout == ""
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
