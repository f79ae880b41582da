"""What all commands share: help, options, errors in one line, exit codes."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from patience import HANG_S
from shell import Shell

from swarm_memory.schema.errors import ConfigError, ModelUnavailable, NotFoundError, StoreBusy, SwarmMemoryError
from swarm_memory.server.cli import main as command_line
from swarm_memory.server.cli.commands import memories
from swarm_memory.server.cli.console import print_answer, print_table, printable


def commands_of(group: click.Group, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the path of every command, groups included."""
    context = click.Context(group)
    found: list[tuple[str, ...]] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        found.append((*prefix, name))
        if isinstance(command, click.Group):
            found.extend(commands_of(command, (*prefix, name)))
    return found


ALL = commands_of(command_line.cli)
GROUPS = ("memories", "jobs", "sources", "team", "tools", "benchmark", "bank")
WITHOUT_JSON = {*((group,) for group in GROUPS), ("serve",), ("ui",), ("memories", "export")}
"""Groups of commands, and commands whose output is not an answer."""


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help_and_json(swarm: Shell, path: tuple[str, ...]) -> None:
    ran = swarm(*path, "--help")
    assert ran.code == 0
    assert len(ran.out.splitlines()) > 3
    assert ("--json" in ran.out) == (path not in WITHOUT_JSON)


def test_the_commands_are_few() -> None:
    assert len(command_line.COMMANDS) <= 27
    assert len([path for path in ALL if path[-1] not in GROUPS]) <= 46


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFoundError("no memory rm_1"), 2),
        (ConfigError("unknown setting 'kk'"), 3),
        (StoreBusy("the writer lock\nwas not free"), 4),
        (ModelUnavailable("no answer"), 5),
        (SwarmMemoryError("other"), 1),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    swarm: Shell, monkeypatch: pytest.MonkeyPatch, error: SwarmMemoryError, code: int
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(memories.retrieve, "callback", fail)
    ran = swarm("retrieve", "x")
    assert ran.code == code
    assert ran.out == ""
    assert ran.err == f"swarm-memory: {' '.join(str(error).split())}\n"


@pytest.mark.parametrize(("arguments", "complaint"), [
    (("retrieve",), "Missing argument"), (("retrieve", "x", "-k", "500"), "range 1<=x<=50"),
    (("post-task", "--task-id", "", "--outcome", "Success"), "'--task-id': it has 0 characters; 1 to 500 are allowed"),
    (("remember", *["word"] * 801), "4,004 characters; 0 to"), (("jobs", "work", "--session", "s1"), "need each other"),
    (("mirror", "notes", "--now"), "cannot be combined"), (("jobs", "work", "--early"), "--early needs --until-idle"),
    (("--set", "retrieve.k", "status"), "KEY=VALUE"), (("--project", "/no/such/folder", "status"), "does not exist"),
])  # fmt: skip
def test_wrong_usage_ends_with_2(swarm: Shell, arguments: tuple[str, ...], complaint: str) -> None:
    ran = swarm(*arguments)
    assert ran.code == 2
    assert complaint in ran.err


def test_a_command_that_is_not_there_blocks_no_agent_whose_hook_calls_it(swarm: Shell) -> None:
    ran = swarm("cap", "--hook")
    assert (ran.code, ran.out) == (1, "")
    assert "No such command 'cap'" in ran.err
    assert "No such command 'statu'. Did you mean 'status'?" in swarm("statu").err


@pytest.mark.parametrize(("said", "meant"), [
    (("import", "--all"), "learn --all"), (("memories", "get", "rm_1"), "show"), (("search", "x"), "retrieve"),
    (("list",), "memories list"), (("add", "x"), "remember"), (("sync",), "jobs work --until-idle"),
])  # fmt: skip
def test_a_word_of_other_programs_or_of_before_says_what_is_meant(
    swarm: Shell, said: tuple[str, ...], meant: str
) -> None:
    assert f"`swarm-memory {meant}` does that" in swarm(*said).err


def test_a_file_that_is_no_bank_ends_with_4_and_is_left_alone(swarm: Shell, project: Path) -> None:
    (project / "notes.db").write_text("somebody's notes, long enough not to be taken for an empty file" * 50)
    before = (project / "notes.db").read_bytes()
    assert swarm("--db", "notes.db", "status").code == 4
    assert (project / "notes.db").read_bytes() == before


def test_options_choose_the_database_and_the_project(swarm: Shell, project: Path, tmp_path: Path) -> None:
    assert swarm("--db", "other.db", "status", "--json").json["database"].endswith(f" creates {project / 'other.db'}")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    assert not (project / "other.db").exists(), "what only reads makes nothing"
    assert not folder.joinpath(".swarm").exists()
    swarm("--project", folder, "jobs", "work", "--until-idle")
    status = swarm("--project", folder, "status", "--json").json
    assert (status["database"], status["project"]) == (str(folder / ".swarm" / "memory.db"), "elsewhere")


def test_the_text_of_a_memory_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[2Jb\x07\u202ec\nd\te") == "a\ufffd[2Jb\ufffd\ufffdc\nd\te"


def test_an_answer_is_printed_by_its_fields_rows_as_a_table_and_what_has_a_title_one_below_the_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [{"title": "a", "was_used": True}, {"title": "b\x1b[2J", "reason": None}]
    print_answer({"rows": rows, "legs": ["vector", "keyword"], "reasons": ["it is so"], "text": "1\n2", "more": {}})
    assert capsys.readouterr().out == (
        "rows:\n  title: a\n  was used: yes\n\n  title: b\ufffd[2J\n"
        "legs: vector, keyword\nreasons:\n  it is so\ntext:\n  1\n  2\nmore: none\n"
    )
    merged = [{"id": f"rm_{number}", "similarity": 0.9, "by": {"shop": 2}} for number in range(21)]
    counts = {"active": 2, "archived": 0}
    print_answer({"dry_run": False, "asked": 0, "notices": [], "n": 1234.5, "by_status": counts, "merged": merged})
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["dry run: no", "asked: 0", "notices: none"]
    assert lines[3:6] == ["n: 1,234.50", "by status: 2 active", "merged:"]
    assert lines[6] == "id      similarity   by"
    assert lines[-2].split() == ["rm_19", "0.9", "2", "shop"]
    assert lines[-1] == "… and 1 more; --json shows all"
    print_answer(merged)
    assert "rm_20" in capsys.readouterr().out
    print_answer([])
    assert capsys.readouterr().out == "None.\n"


def test_a_table_breaks_no_figure_a_long_text_between_words_and_in_a_pipe_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    figures = [f"{number}.{number}" for number in range(10, 20)]
    print_table(("id", *("R@5",) * 10), [("rm_01M7ZXDBRVFKX12STQ5SP032TN", *figures)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].rstrip() == "   ".join(("rm_01M7ZXDBRVFKX12STQ5SP032TN", *figures))
    print_table(("option", "what"), [("limit", "Questions at most, taken evenly from all the groups")])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[2:] == ["limit    Questions at most, taken evenly", "         from all the groups"]
    monkeypatch.delenv("COLUMNS")
    print_table(("what", "path"), [("x " * 30, "/a/long/path/" * 6), ("y", "z")])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert all(line == line.rstrip() for line in lines)


def test_reading_only_the_first_line_of_the_output_is_no_error(project: Path) -> None:
    command = f"{sys.executable} -I -m swarm_memory.server.cli status --settings --json | head -c 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, check=False, cwd=project)
    assert done.stdout == b"{"
    assert b"Traceback" not in done.stderr


def test_a_fault_of_ours_ends_the_process_with_the_threads_that_it_left(project: Path) -> None:
    code = (
        "import sys, threading; sys.argv = ['swarm-memory', 'status']\n"
        "from swarm_memory.server.cli import main as command_line\n"
        "from swarm_memory.server.cli.commands import status\n"
        "def fail(**_):\n"
        "    threading.Thread(target=threading.Event().wait).start()\n"
        "    raise ZeroDivisionError\n"
        "status.status.callback = fail\n"
        "command_line.main()\n"
    )
    command = [sys.executable, "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, check=False, cwd=project, timeout=HANG_S)
    assert done.returncode == 1
    assert done.stderr.startswith(b"swarm-memory: internal error: ZeroDivisionError")
    assert done.stderr.count(b"\n") == 1


def test_the_help_imports_no_heavy_module(project: Path) -> None:
    code = (
        "import sys; sys.argv = ['swarm-memory', '--help']\n"
        "from swarm_memory.server.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'mcp', 'openai', 'numpy', 'rich', 'sqlite3', 'pydantic', 'yaml'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, cwd=project)


def test_every_command_stands_in_one_section_of_the_help(swarm: Shell) -> None:
    lines = swarm("--help").out.splitlines()
    assert "Exit codes: 0 done" in "\n".join(lines)
    for name, (section, _, summary) in command_line.COMMANDS.items():
        (at,) = (number for number, line in enumerate(lines) if line.startswith(f"  {name} "))
        assert summary[:20] in lines[at]
        assert [line for line in lines[:at] if line.endswith(":") and line[0] != " "][-1] == f"{section}:"
    first = [name for name, (section, _, _) in command_line.COMMANDS.items() if section == "Everyday"]
    assert first == ["install", "status", "doctor", "ui", "remember", "retrieve", "memories", "learn"]
