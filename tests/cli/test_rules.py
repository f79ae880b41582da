"""The block of rules that is written into AGENTS.md and other files, on request alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.files.rules import BEGIN, END, RULES, files_with_rules, plan_rules
from swarm_memory.server.hosts.settings_files import apply

Shell = Callable[..., Any]
OWN = "# How we work\n\nUse tabs.\n"


@pytest.fixture
def file(home: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder / "AGENTS.md"


@pytest.mark.parametrize("before", [None, OWN, f"{OWN}\nA last line without an end"])
def test_the_block_is_written_again_in_its_place_and_taken_out_to_the_byte(before: str | None, file: Path) -> None:
    root = file.parent
    if before is not None:
        file.write_text(before)
    apply(plan_rules(file, root, "1) Run make first"))
    written = file.read_text()
    assert written.startswith((before or "").rstrip())
    assert written.endswith(f"{BEGIN}\n{RULES}\n\n1) Run make first\n{END}\n")
    assert plan_rules(file, root, "1) Run make first") == []
    file.write_text(f"{written}\n## Below\n")
    apply(plan_rules(file, root, "1) Run ninja first"))
    assert file.read_text() == f"{written}\n## Below\n".replace("make", "ninja")
    file.write_text(written)
    assert files_with_rules(root) == [file]
    apply(plan_rules(file, root, None))
    assert (file.read_text().rstrip() if file.exists() else None) == (before.rstrip() if before else None)
    assert files_with_rules(root) == []


def test_a_block_of_an_earlier_version_leaves_no_line_in_a_file_of_windows(file: Path) -> None:
    file.write_bytes(f"# Ours\r\nUse tabs.\n\n{BEGIN}\n{RULES}\n{END}\nBelow\r\n".encode())
    apply(plan_rules(file, file.parent, None))
    assert file.read_bytes() == b"# Ours\r\nUse tabs.\nBelow\r\n"


def test_a_file_that_is_not_the_projects_or_whose_marks_are_torn_is_left_alone(file: Path, tmp_path: Path) -> None:
    file.write_text(f"{BEGIN}\nmine\n")
    with pytest.raises(ConfigError, match="torn apart"):
        plan_rules(file, file.parent, "")
    elsewhere = tmp_path / "elsewhere.md"
    elsewhere.write_text(OWN)
    (file.parent / "CLAUDE.md").symlink_to(elsewhere)
    with pytest.raises(ConfigError, match="symbolic link"):
        plan_rules(file.parent / "CLAUDE.md", file.parent, "")
    assert plan_rules(elsewhere, file.parent, None) == []


def test_promote_shows_the_difference_and_asks_and_what_it_wrote_is_taken_out_on_request_alone(
    swarm: Shell, project: Path
) -> None:
    swarm("remember", "Run make grammar before the tests", "--kind", "procedure")
    swarm("remember", "Answer in German", "--kind", "preference")
    other, memory = (each["id"] for each in swarm("memories", "list", "--json").json)
    skill = project / ".claude" / "skills" / "learned-tests" / "SKILL.md"
    assert "+## 1. The user said: Run make grammar" in swarm("promote", memory, "--dry-run").out
    assert swarm("promote", memory, stdin="n\n").code == 130
    assert not skill.exists()
    assert f"Wrote {skill}" in swarm("promote", memory, stdin="y\n").out
    assert "Nothing to change" in swarm("promote").out
    assert "grammar" not in swarm("install", "--rules", "AGENTS.md", "--dry-run").out, "a skill has it already"
    done = swarm("promote", other, "--to", "agents-md", "--yes", "--json").json
    assert (done["status"], done["promoted"], done["files"][0]["path"]) == (
        "written",
        [other],
        str(project / "AGENTS.md"),
    )
    assert "still in AGENTS.md" in swarm("memories", "forget", other, "--yes").out
    assert "What `promote` wrote stays" in swarm("uninstall").out
    assert "no memory is proven yet" in swarm("promote", "--proven").out
    assert swarm("promote", "--proven", "--demote").code == 2
    assert "2 memories in 2 files that agents read" in swarm("metrics").out
    assert f"Removed {skill}" in swarm("promote", "--demote", "--yes").out
    assert not (project / "AGENTS.md").exists()
    assert not (project / ".claude").exists()


def test_the_command_writes_the_projects_own_memories_and_uninstall_takes_them_out(swarm: Shell, project: Path) -> None:
    swarm("remember", "Run make grammar before the tests", "--kind", "procedure")
    swarm("remember", "Answer in German", "--kind", "preference", "--scope", "global")
    assert "+## What earlier tasks taught" in swarm("install", "--rules", "AGENTS.md", "--dry-run").out
    assert not (project / "AGENTS.md").exists()
    assert swarm("install", "--rules", "AGENTS.md").code == 0
    text = (project / "AGENTS.md").read_text()
    assert "make grammar" in text
    assert "German" not in text
    assert "Removed" in swarm("uninstall").out
    assert not (project / "AGENTS.md").exists()
