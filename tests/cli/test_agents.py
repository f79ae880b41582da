"""`install` and `uninstall` for several agents, and `learn --all` over the sessions of all of them."""

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from made_files import written
from shell import Shell

from swarm_memory.server.cli.commands import learn, setup
from swarm_memory.server.cli.commands.setup import SESSION as DEMO
from tests.hosts import codex_records
from tests.hosts.agent_records import FIRST, SESSION, Record, write_lines

FAILED = "E sqlite3.OperationalError: no such table: orders\n1 failed in 0.02s"
LONG_AGO = 1_500_000_000


@pytest.fixture
def codex(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make Codex CLI the only agent on this machine."""
    monkeypatch.delenv("CODEX_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    folder = home / ".codex"
    folder.mkdir()
    return folder


def rollout(cwd: Path) -> list[Record]:
    """Return a session in which a test failed because of a missing table, which was then created."""
    return [
        codex_records.meta(cwd=str(cwd)),
        *codex_records.typed(FIRST),
        codex_records.call("c1", cmd="pytest -q"),
        codex_records.output("c1", FAILED, 1),
        codex_records.call("c2", cmd="python -m shop.migrate"),
        codex_records.output("c2", "migrated shop_test.db: 1 table"),
        codex_records.call("c3", cmd="pytest -q"),
        codex_records.output("c3", "2 passed in 0.01s"),
        *codex_records.answered("Done: the tests pass after the migration."),
    ]


def test_agents_are_installed_into_by_name_and_taken_out_one_by_one(swarm: Shell, project: Path, codex: Path) -> None:
    done = swarm("install", "--agent", "codex,claude")
    assert done.code == 0
    assert "enter /hooks" in done.out
    assert (codex / "hooks.json").exists()
    assert (project / ".claude" / "settings.local.json").exists()
    found = swarm("doctor", "-v").out
    assert "Codex CLI: server and hooks are installed (user)" in found
    left = swarm("uninstall").out
    assert "Still installed in Codex CLI: `swarm-memory uninstall --agent codex` removes that" in left
    assert swarm("uninstall", "--agent", "codex").code == 0
    assert list(codex.glob("*")) == []


def test_the_flags_of_a_documents_commands_are_taken(swarm: Shell, fixed: dict[str, Any]) -> None:
    task = ("--task-id", "T-1")
    assert swarm("hooks", "pre-task", "--retrieve-reasoningbank", "true", *task, "--query", FIRST).code == 0
    judged = ("hooks", "post-task", *task, "--judge-and-distill")
    alone = swarm(*judged, "false", "--trajectory", "-", "--outcome", "success", "--json", stdin=json.dumps(fixed))
    assert alone.json["status"] == "nothing_injected"
    assert swarm(*judged, "false", "--trajectory", "-", stdin=json.dumps(fixed)).code == 2
    learned = swarm(*judged, "true", "--trajectory", "-", "--json", stdin=json.dumps(fixed)).json
    assert (learned["verdict"], bool(learned["stored"])) == ("Success", True)
    swarm("remember", "Run the migration before the tests of the shop")
    shown = ("pre-task", "--task-id", "T-2", "--query", fixed["task"], "--retrieve-reasoningbank")
    assert "migration" in swarm(*shown, "true").out
    assert swarm(*shown, "false") == (0, "", "")


def test_a_broken_file_of_another_agent_does_not_keep_one_from_being_installed_into(
    swarm: Shell, project: Path, codex: Path, home: Path
) -> None:
    written(home / ".gemini" / "settings.json", "{broken")
    ran = swarm("install", "--agent", "codex")
    assert (ran.code, (codex / "hooks.json").exists()) == (0, True), ran.err


def test_without_a_terminal_it_is_claude_code_and_others_are_named(swarm: Shell, project: Path, codex: Path) -> None:
    shares = "`swarm-memory install --agent codex` shares this memory with it"
    assert shares in swarm("install", "--yes").out
    assert not (codex / "hooks.json").exists()
    assert shares in swarm("doctor").out


def test_at_a_terminal_it_is_asked_which_agents_are_meant(
    swarm: Shell, project: Path, codex: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "is_asked_at", lambda: True)
    asked = swarm("install", stdin="codx\ncodex\nrules\n")
    assert asked.code == 0
    assert asked.out.count("Install into [codex]") == 2, "asked again after a slip"
    assert "Claude Code is asked itself" not in asked.out
    assert (codex / "hooks.json").exists()
    assert not (project / ".claude").exists()


@pytest.mark.parametrize(("arguments", "complaint"), [
    (("--agent", "emacs"), "cannot install into emacs"),
    (("--agent", " , "), "cannot install into nothing"),
    (("--project", "--user"), "--user is for all your projects"),
    (("--print", "emacs"), "unknown client 'emacs'"),
    (("--print", "codex"), "`swarm-memory install --agent codex` sets it up"),
])  # fmt: skip
def test_what_is_no_agent_is_said(arguments: tuple[str, ...], complaint: str, swarm: Shell) -> None:
    refused = swarm("install", *arguments)
    assert refused.code == 2
    assert complaint in refused.err


def test_a_configuration_is_printed_alone_and_where_it_goes_beside_it(swarm: Shell, project: Path) -> None:
    printed = swarm("install", "--print", "other")
    assert printed.json["mcpServers"]["swarm-memory"]["args"][-4:] == [str(project), "serve", "--tools", "core"]
    assert "the client's configuration file" in printed.err
    assert swarm("install", "--print", "vscode").json["servers"]["swarm-memory"]["args"][-4] == "${workspaceFolder}"


def test_learn_all_learns_what_every_agent_did_in_this_project_and_says_so_on_a_page(
    swarm: Shell, project: Path, home: Path, codex: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = codex / "sessions" / "2026" / "05" / "01"
    day.mkdir(parents=True)
    write_lines(day / f"rollout-2026-05-01T10-00-00-{SESSION}.jsonl", rollout(project))
    old = write_lines(day / "rollout-2026-05-01T11-00-00-old.jsonl", rollout(project))
    os.utime(old, (LONG_AGO, LONG_AGO))
    write_lines(day / "rollout-2026-05-01T12-00-00-other.jsonl", rollout(project.parent / "other"))
    mine = home / ".claude" / "projects" / str(project).replace("/", "-").replace("_", "-")
    written(mine / "s1.jsonl", DEMO.read_bytes())
    monkeypatch.setattr(learn, "LOOKED_BACK", timedelta(days=1830))
    page = swarm("learn", "--all")
    assert page.code == 0, page.err
    assert page.out.count("before pytest") == 2
    again = swarm("learn", "--all", "--json").json
    assert (again["agents"], again["learned"]) == ({"claude": 1, "codex": 1}, [])
    assert swarm("learn", "--all", "x.jsonl").code == 2
