"""What a project's folder says about the names in memories: manifests, targets, what Git tracks."""

import os
from pathlib import Path

import pytest
from made_files import git, written

from swarm_memory.server.project.folder import ProjectFolder


@pytest.mark.parametrize(
    ("file", "text", "there", "not_there"),
    [
        ("Makefile", "X := 1\ncheck test: lint\n\tpytest\nlint:\n", "script:make lint", "script:make X"),
        ("package.json", '{"scripts": {"build:all": "tsc"}}', "script:npm run build:all", "script:npm run build"),
        ("package.json", '{"dependencies": {"@acme/left-pad": "^1"}}', "package:@acme/left-pad", "package:left-pad"),
        ("pyproject.toml", '[project]\ndependencies = ["requests>=2", "a_b"]', "package:requests", "package:request"),
        ("pyproject.toml", 'dependencies = ["typing_extensions"]', "package:typing-extensions", "package:typing"),
        ("requirements.txt", "click==8.1\n# flask\n", "package:click", "package:flask"),
    ],
)
def test_what_manifests_name_is_there(tmp_path: Path, file: str, text: str, there: str, not_there: str) -> None:
    (tmp_path / file).write_text(text)
    project = ProjectFolder(tmp_path)
    assert project.has(there)
    assert not project.has(not_there)


def test_what_was_read_is_read_again_when_a_file_has_changed(tmp_path: Path) -> None:
    project, lint = ProjectFolder(tmp_path), "script:make lint"
    assert not project.has(lint)
    (tmp_path / "Makefile").write_text("lint:\n")
    assert project.has(lint)
    (tmp_path / "Makefile").write_text("check:\n")
    assert not project.has(lint)


def test_files_outside_the_project_and_files_that_are_none_say_nothing(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "outside.txt").write_text("x")
    os.mkfifo(root / "package.json")
    (tmp_path / "Makefile").write_text("lint:\n")
    (root / "Makefile").symlink_to(tmp_path / "Makefile")
    project = ProjectFolder(root)
    found = [each for each in ("file:../outside.txt", f"file:{tmp_path}/outside.txt") if project.has(each)]
    assert found == []
    assert not project.has("package:left-pad")
    assert not project.has("script:make lint")


def test_what_earlier_versions_noted_of_versions_and_branches_is_taken_to_be_there(tmp_path: Path) -> None:
    assert ProjectFolder(tmp_path).has("branch:release/1")
    assert ProjectFolder(tmp_path).has("version:python 3.11")


async def test_git_says_which_files_last_and_no_program_of_the_repository_is_run(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for name in ("kept.py", "src/kept.py"):
        written(tmp_path / name, "x")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    (tmp_path / "scratch.py").write_text("x")
    ran, program = tmp_path / "ran", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    for key in ("core.fsmonitor", "core.pager", "diff.external", "gpg.program", "core.sshCommand", "core.editor"):
        git(tmp_path, "config", key, str(program))
    assert await ProjectFolder(tmp_path).tracked_by_git(["kept.py", "src", "scratch.py"]) == {"kept.py", "src"}
    assert not ran.exists()


async def test_without_a_repository_all_files_last(tmp_path: Path) -> None:
    assert await ProjectFolder(tmp_path).tracked_by_git(["a.py"]) == {"a.py"}
