"""What triggers a memory, compared with what happens; and which parts of a project it names when it is created."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_items import made_item

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import FIX, MemoryItem, Provenance
from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.server.project.folder import ProjectFolder
from swarm_memory.tools.anchors.handles import at_call, at_failure, at_prompt, handles_of, named_handles
from swarm_memory.tools.anchors.staleness import anchors_of
from swarm_memory.tools.trajectory.calls import calls_of

ERROR = "Traceback (most recent call last):\n  File \"x.py\"\nshop.settings.SetupError: region 'eu-1' is not prepared"


def note(content: str, *, title: str = "A note", when: str = "", provenance: Provenance | None = None) -> MemoryItem:
    return MemoryItem(
        id="rm_1",
        scope=Scope(tenant_id="t", project="p"),
        title=title,
        description=when,
        content=content,
        confidence=0.5,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        provenance=provenance or Provenance(distiller="agent"),
    )


def shell(command: str) -> set[str]:
    return set(at_call("Bash", {"command": command}, "/home/kim/shop"))


@pytest.mark.parametrize(
    ("content", "command", "calls"),
    [
        ("The message of `git commit -m` needs a ticket.", "cd app && git add . && git commit -qm 'x'", True),
        ("Before git commit the change log needs a line.", "git commit --amend", True),
        ("Never git clean -fd the tree.", "git clean -fdx", True),
        ("Use `parcelctl send --box N`.", "parcelctl --help", True),
        ("`make fast` runs the quick part.", "make fast 2>&1 | tail -3", True),
        ("Regenerate `gen/api.py` after that.", "cat > gen/api.py <<'END'\nx = 1\nEND", True),
        ("Nothing in `gen/` is edited by hand.", "sed -i s/a/b/ /home/kim/shop/gen/api.py", True),
        ("Run `python3 tools/seed.py --all` first.", "python3 tools/seed.py", True),
        ("Run `python3 -m pytest -x` with a database.", "pytest tests", True),
        ("`python3 -m oven.plan GLAZE` needs the table.", "python3 -m oven.plan tile 2>&1 | tail", True),
        ("The message of `git commit -m` needs a ticket.", "git status", False),
        ("Read it with `cat notes/plan.md`.", "cat README.md", False),
        ("It prints `done 1.4.0 LANE`.", "done 1.4.0", False),
        ("`python3 tools/seed.py` fills it.", "python3 -c 'print(1)'", False),
        ("Look at `ls -la`.", "ls -la", False),
    ],
)
def test_a_note_is_called_for_by_what_it_names_unless_everybody_runs_that_all_the_time(
    content: str, command: str, *, calls: bool
) -> None:
    assert bool(shell(command) & set(handles_of(note(content)))) is calls


def test_a_call_finds_a_note_by_its_file_however_named_and_by_a_servers_tool_or_its_last_part() -> None:
    wanted = set(handles_of(note("Change `src/rates.py` with its table.")))
    for path in ("src/rates.py", "./src/rates.py", "/home/kim/shop/src/rates.py"):
        assert wanted & set(at_call("Edit", {"file_path": path}, "/home/kim/shop"))
    assert not wanted & set(at_call("Edit", {"file_path": "/home/kim/other/src/rates.py"}, "/home/kim/shop"))
    called = set(at_call("mcp__tracker__create_issue", {}, ""))
    assert called & set(handles_of(note("`mcp__tracker__create_issue` wants a team.")))
    assert called & set(handles_of(note("`create_issue` wants a team.")))
    assert not called & set(handles_of(note("`create_page` wants a space.")))


def test_an_error_is_known_again_whatever_is_quoted_in_it_wherever_it_is_and_as_pytest_shows_it() -> None:
    named = note(
        "Prepare it first.", when="Tests end in SetupError: region '...' is not prepared, or after a checkout."
    )
    failed = {"command": "for f in *; do cat $f; done; python3 -m unittest"}
    assert set(at_failure("Bash", failed, f"a\nb\n{ERROR}\n")) & set(handles_of(named))
    assert not set(at_failure("Bash", failed, "SetupError: no such region")) & set(handles_of(named))
    quoted = handles_of(note("`SetupError: conf/x.toml not found` goes by `make conf`."))
    shown = at_failure("Bash", {"command": "pytest"}, "E   shop.conf.SetupError: conf/x.toml not found\n1 failed in 1s")
    assert set(quoted) & set(shown)


def test_plain_words_and_what_a_program_printed_are_no_names() -> None:
    named = named_handles(["time", "no such store", "UTC", "storectl up"])
    words = {each for each in named if not each.startswith("error:")}
    assert words == {"word:no such store", "word:utc", "word:storectl", "command:storectl up", "word:storectl up"}
    printed = handles_of(note("It comes up.", when="When `storectl load` prints `no plan` or `E41 table`."))
    assert "command:storectl load" in printed
    assert not {"word:no", "command:no plan", "command:e41 table"} & set(printed)
    assert handles_of(note("We use pnpm here. Keep the git history linear, and npm packages few.")) == ()


def test_a_prompt_calls_for_what_it_names_a_plain_word_where_it_is_a_program_and_no_word_of_prose() -> None:
    step = Step(id="1", kind="tool_call", role="assistant", tool_name="Bash", tool_input={"command": "harbour up"})
    calls = calls_of(Trajectory(task_id="t", task="start it", steps=(step,)))
    assert named_handles(["harbour", "metres"], calls) == ("word:harbour", "command:harbour")
    named = set(handles_of(note('"the ledger" is `acct/book.db`; PARCEL_BOX is set by `parcelctl open --box`.')))
    for prompt in ("Add a row to the ledger.", "look at acct/book.db", "is PARCEL_BOX set?", "open it with parcelctl"):
        assert set(at_prompt(prompt)) & named, prompt
    assert not set(at_prompt("Open the box and set the table for the team")) & named


def test_what_the_author_names_calls_for_it_and_a_fix_is_called_for_by_its_error_alone() -> None:
    named = named_handles(["git push", "the ledger", "`src/rates.py`", "mcp__tracker__create_issue"])
    assert {"command:git push", "word:the ledger", "file:src/rates.py", "tool:mcp__tracker__create_issue"} <= set(named)
    fix = note("1. Run `make db`.", when="When `make test` fails").model_copy(
        update={"tags": (FIX,), "provenance": Provenance(handles=("error:1",))}
    )
    assert handles_of(fix) == ("error:1",)


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
    assert shown == {"file:src/app.py", "script:make check", "package:pydantic"}


def test_packages_that_are_words_are_noted_within_code_alone_and_nothing_outside_the_project(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("requests==2.31.0\nclick==8\n")
    assert named(tmp_path, "Send requests in batches", "1. Click on it, import click.") == set()
    assert named(tmp_path, "Retry", "1. `requests.get(url, timeout=5)`") == {"package:requests"}
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
