"""The real Claude Code is warned before a call that failed in an earlier session, where that is switched on."""

import json
from pathlib import Path

import pytest
from messages_api import Say, Turn, bash
from patience import AT_FULL_LENGTH
from sessions import IN_CLAUDE_CODE, run_session, swarm_memory, write_settings_to_look_for

pytestmark = IN_CLAUDE_CODE

FIRST: list[Turn] = [bash("cat settings.ini"), bash("cat config/settings.ini"), Say("It holds the answer.")]
SECOND: list[Turn] = [bash("cat settings.ini"), Say("As noted.")]


@pytest.mark.parametrize("wanted", [True, pytest.param(False, marks=AT_FULL_LENGTH)])
def test_a_call_that_failed_in_the_session_before_is_warned_of_once_it_is_wanted(tmp_path: Path, wanted: bool) -> None:
    project = tmp_path / "shop"
    write_settings_to_look_for(project, warn=wanted)
    swarm_memory(project, "install", "--project")
    run_session(project, tmp_path / "first", FIRST, "Tell me which answer the settings hold")
    api, _ = run_session(project, tmp_path / "second", SECOND, "Tell me which answer the settings hold")
    told = json.dumps(api.requests[-1]["messages"])
    assert ("Note from earlier calls: `Bash` failed before" in told) is wanted
    assert ("cat config/settings.ini" in told) is wanted
