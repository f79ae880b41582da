"""`install` asks once who learns from finished tasks, and keeps the answer in the user's own settings file."""

import os
import sys
from pathlib import Path

import pytest
from forked import CLI, Forked
from made_files import written
from patience import HANG_S
from shell import Shell

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.config import resolve_settings, with_setting


def own_file(home: Path) -> Path:
    return home / ".config" / "swarm-memory" / "config.yaml"


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called `claude` on the PATH; it is not run here."""
    program = tmp_path / "programs" / "claude"
    written(program, "#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return program


def at_a_terminal(project: Path, *arguments: str, types: str) -> str:
    """Run `swarm-memory` at a terminal where somebody types; return what the terminal showed."""
    import pty

    ours, its = pty.openpty()
    with Forked([*CLI, *arguments], cwd=project, stdin=its, stdout=its, stderr=its) as process:
        os.close(its)
        os.write(ours, types.encode())
        shown = b""
        try:
            while piece := os.read(ours, 65_536):
                shown += piece
        except OSError:
            pass  # this is how Linux reports that the other side has ended
        assert process.wait(HANG_S) == 0, shown
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_a_user_is_asked_once_and_shown_what_is_sent_and_what_it_takes(project: Path, home: Path, claude: Path) -> None:
    shown = at_a_terminal(project, "install", types="claude\n")
    for part in (
        "claude -p --model haiku",
        "at most 500,000 per day",
        "8,000 tokens",
        "about 20,000 tokens a task",
        "without secrets",
    ):
        assert part in shown
    assert "endpoint" not in shown.partition("Learn with")[0], "no model is named that could be asked"
    assert own_file(home).read_text() == "chat: {learn_with: claude}\n"
    assert own_file(home).stat().st_mode & 0o777 == 0o600
    again = at_a_terminal(project, "install", types="")
    assert "Learn with" not in again
    assert "claude_cli:haiku in the background" in again


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_who_only_confirms_lets_the_agent_teach_and_who_wants_no_question_gets_rules(
    project: Path, home: Path, claude: Path
) -> None:
    assert "Learn with" not in at_a_terminal(project, "install", "--yes", types="")
    assert not own_file(home).exists()
    shown = at_a_terminal(project, "install", types="\n")
    assert "Learn with (agent, rules, claude) [agent]" in shown
    assert "one further request" in shown
    assert own_file(home).read_text() == "chat: {learn_with: agent}\n"


def test_without_a_terminal_nothing_is_asked_and_it_is_said_how_to_choose(swarm: Shell, home: Path) -> None:
    ran = swarm("install")
    assert ran.code == 0
    assert "no model is asked" in ran.out
    assert "--learn-with agent|rules|claude|endpoint" in ran.out
    assert not own_file(home).exists()


def test_one_command_changes_the_answer_and_installs_nothing_a_second_time(
    swarm: Shell, project: Path, home: Path, claude: Path
) -> None:
    assert swarm("install", "--user", "--learn-with", "claude").code == 0
    assert swarm("status", "--json").code == 0
    changed = swarm("install", "--learn-with", "rules")
    assert [line for line in changed.out.splitlines() if line.startswith("Wrote")] == [f"Wrote {own_file(home)}"]
    assert "no model is asked" in changed.out
    assert not (project / ".claude").exists()
    assert resolve_settings(project).settings.chat.learning == ()


def test_a_dry_run_shows_the_change_of_the_answer_and_writes_nothing(swarm: Shell, home: Path) -> None:
    assert "+chat: {learn_with: rules}" in swarm("install", "--learn-with", "rules", "--dry-run").out
    assert not own_file(home).exists()


@pytest.mark.parametrize(("way", "complaint"), [("claude", "not on your PATH"), ("endpoint", "chat.providers")])
def test_what_cannot_be_done_is_said_before_anything_is_written(
    swarm: Shell, project: Path, home: Path, monkeypatch: pytest.MonkeyPatch, way: str, complaint: str
) -> None:
    monkeypatch.setenv("PATH", str(home))
    ran = swarm("install", "--learn-with", way)
    assert ran.code == 3
    assert complaint in ran.err
    assert not (project / ".claude").exists()


def test_who_named_models_before_is_not_asked(swarm: Shell, project: Path, home: Path) -> None:
    written(own_file(home), "chat:\n  providers:\n    - {provider: openai, model: m}\n")
    assert "openai:m in the background" in swarm("install").out
    assert swarm("install", "--learn-with", "endpoint").code == 0
    assert "learn_with: endpoint" in own_file(home).read_text()
    assert [each.name for each in resolve_settings(project).settings.chat.learning] == ["openai:m"]


FILES = [
    ("", "chat: {learn_with: claude}\n"),
    ("# mine", "# mine\nchat: {learn_with: claude}\n"),
    ("# c\nretrieve: {k: 5}\n", "# c\nretrieve: {k: 5}\nchat: {learn_with: claude}\n"),
    ("chat: {learn_with: rules} # no\n", "chat: {learn_with: claude} # no\n"),
    ("team: {learn_with: b}\nchat: {learn_with: a}\n", "team: {learn_with: b}\nchat: {learn_with: claude}\n"),
    ("chat:\n    # two\n    retries: 1\n", "chat:\n    learn_with: claude\n    # two\n    retries: 1\n"),
    ("chat: {retries: 1}\n", "chat: {learn_with: claude, retries: 1}\n"),
    ("reasoningbank:\n  chat:\n    retries: 1\n", "reasoningbank:\n  chat:\n    learn_with: claude\n    retries: 1\n"),
]


@pytest.mark.parametrize(("before", "after"), FILES, ids=[before for before, _ in FILES])
def test_a_settings_file_keeps_all_else_that_stands_in_it(before: str, after: str) -> None:
    assert with_setting(before, "chat.learn_with", "claude", "the file") == after


@pytest.mark.parametrize("text", ["chat: [1]", "chat: {", "{retrieve: {k: 5}}"])
def test_a_settings_file_that_cannot_be_edited_is_left_alone(text: str) -> None:
    with pytest.raises(ConfigError, match="the file"):
        with_setting(text, "chat.learn_with", "claude", "the file")
