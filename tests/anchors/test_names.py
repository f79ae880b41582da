"""What of a project a memory names: only what is there when the memory is made."""

import re
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from made_items import made_item

from swarm_memory.server.project.folder import ProjectFolder
from swarm_memory.tools.anchors.staleness import anchors_of


def named(root: Path, title: str, content: str) -> set[str]:
    item = made_item(title, content=content)
    return set(anchors_of(item, ProjectFolder(root)))


def test_what_a_memory_names_and_the_project_has_is_noted_by_its_kind(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("")
    (tmp_path / "Makefile").write_text("check:\n\tpytest\n")
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["pydantic>=1"]\n')
    shown = named(
        tmp_path,
        "Run `make check` before a merge into branch release/1",
        "1. Edit src/app.py, not src/other.py.\n2. `from pydantic import BaseModel`, which is pydantic 1.10 here.\n"
        "3. Then make sure that ./src/app.py ends; e.g. requests 2.31 is not used.",
    )
    assert shown == {
        "file:src/app.py",
        "script:make check",
        "package:pydantic",
    }


def test_words_that_are_packages_too_are_noted_within_code_alone(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("requests==2.31.0\nclick==8\n")
    assert named(tmp_path, "Send requests in batches", "1. Click on it, import click.") == set()
    assert named(tmp_path, "Retry", "1. `requests.get(url, timeout=5)`") == {"package:requests"}


def test_nothing_outside_the_project_is_looked_at(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "secret.txt").write_text("x")
    assert named(root, "Read ../secret.txt", f"1. cat {tmp_path}/secret.txt\n2. See https://example.org/a.py") == set()


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=600), st.sampled_from(["@a/" * 200, "a." * 400, "x" * 4000, "make " * 500, "origin/" * 300]))
def test_any_text_is_read_without_an_error_and_what_is_noted_can_be_read_again(text: str, odd: str) -> None:
    class Everything(ProjectFolder):
        def has(self, anchor: str) -> bool:
            return True

    item = made_item("T" + text[:100], content=odd + text)
    kept = anchors_of(item, Everything(Path("/nowhere")))
    assert all(re.match(r"(?:file|script|package):.", each) for each in kept)
    assert all(ProjectFolder(Path("/nowhere")).has(each) is False for each in kept)
