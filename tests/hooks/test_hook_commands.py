"""The hook commands as real processes: quick, unaffected by the project they run in, and never harmful to the host."""

import json
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from claude_lines import line, write
from hook_project import NOTE, SAID, TASK, VERBS, HookProject
from made_files import written
from patience import UNHURRIED

from swarm_memory.server.missed_hooks import missed
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine.files import writer_lock

HEAVY = {"mcp", "openai", "numpy", "pydantic", "aiosqlite", "asyncio", "anyio", "yaml", "click", "rich"}
SCRIPT = "swarm_memory.server.console_script"


def test_a_hook_that_a_server_answers_imports_nothing_heavy(shop: HookProject) -> None:
    code = "import sys, swarm_memory.server.hooks.main; print(*sys.modules)"
    modules = {name.partition(".")[0] for name in shop.start("-c", code).stdout.split()}
    assert modules & HEAVY == set()
    assert "swarm_memory" in modules


def test_a_session_without_a_task_in_a_project_without_a_bank_leaves_nothing(shop: HookProject) -> None:
    """Neither its hooks nor the worker started at its end leave anything."""
    write(shop.transcript, [line("system"), "{}"])
    with shop.no_workers_left():
        for verb in VERBS:
            shown = shop.event(hook_event_name="UserPromptSubmit", prompt="/help", tool_name="Bash")
            assert shop.printed(verb, shown) == ""
        for prompt in ("/cost now", "", "<command-name>/clear</command-name>"):
            assert shop.prompt(prompt) == ""
    assert list(shop.root.iterdir()) == []
    assert missed(shop.root) == []


def test_the_end_of_a_session_in_a_project_without_a_bank_makes_one_and_learns(shop: HookProject) -> None:
    with shop.no_workers_left():
        assert shop.printed("session-end") == ""
    assert [(job["key"], job["status"]) for job in learning(shop)] == [("s1:all", "completed")]
    assert "SettingsError" in str(shop.rows("SELECT pattern_data FROM patterns"))
    assert missed(shop.root) == []


def learning(shop: HookProject) -> list[dict[str, str]]:
    """Return the jobs of kind `learn`."""
    jobs = json.loads(shop.cli("jobs", "list", "--all", "--json"))
    return [job for job in jobs if job["kind"] == "learn"]


def test_a_session_starts_with_what_the_project_taught(learned: HookProject) -> None:
    answer = json.loads(learned.printed("session-start"))["hookSpecificOutput"]
    assert answer["hookEventName"] == "SessionStart"
    assert SAID in answer["additionalContext"]
    assert NOTE not in answer["additionalContext"], "a fix is shown where its error is spoken of"
    assert len(answer["additionalContext"]) < 9000
    assert learned.rows("SELECT usage_count FROM patterns WHERE usage_count > 0") == [(1,)]
    learned.extra["SWARM_MEMORY_HOOKS__BRIEFING_ITEMS"] = "0"
    assert learned.printed("session-start") == ""


def test_the_commands_of_reasoningbanks_document_are_the_hooks_of_a_prompt_and_of_a_turns_end(
    learned: HookProject,
) -> None:
    code = f"import sys; sys.argv[1:1] = ['hooks']\nfrom {SCRIPT} import main\nmain()"
    shown = learned.event(hook_event_name="UserPromptSubmit", prompt=TASK, session_id="s4")
    assert learned.run("-c", code, "pre-task", "--retrieve-reasoningbank", "false", given=shown).stdout == ""
    assert NOTE in learned.run("-c", code, "pre-task", "--retrieve-reasoningbank", "true", given=shown).stdout
    turn = learned.event(hook_event_name="Stop", session_id="s4", stop_hook_active=False)
    ended = learned.run("-c", code, "post-task", "--judge-and-distill", "true", given=turn)
    assert (ended.returncode, ended.stdout) == (0, "")
    assert [job["status"] for job in learning(learned)] == ["queued"]


def test_hooks_run_unharmed_in_a_folder_that_shadows_their_modules(learned: HookProject) -> None:
    for name in ("json.py", "sqlite3.py", "os.py", "re.py", "swarm_memory/__init__.py", "server/__init__.py"):
        path = learned.root / name
        written(path, "raise SystemExit('shadowed')\n")
    learned.extra["PYTHONPATH"] = str(learned.root)
    assert "additionalContext" in learned.start("-c", UNHURRIED, "session-start").stdout
    with learned.no_workers_left():
        assert learned.start("-c", UNHURRIED, "session-end").returncode == 0
    assert learned.log() == ""


def test_a_busy_database_costs_a_session_end_little_and_loses_nothing(shop: HookProject) -> None:
    """The worker that the hook starts waits for the database and queues the session itself."""
    shop.cli("jobs", "work", "--until-idle")
    with shop.no_workers_left(), writer_lock(shop.database, 5):
        assert shop.printed("session-end") == ""
    assert [(job["key"], job["status"]) for job in learning(shop)] == [("s1:all", "completed")]
    assert "SettingsError" in str(shop.rows("SELECT pattern_data FROM patterns"))
    assert missed(shop.root) == []


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0" + b"\xff" * 5000, b"no database", None])
def test_a_bad_database_never_reaches_the_host(shop: HookProject, content: bytes | None) -> None:
    shop.bank.mkdir()
    if content is None:
        (shop.bank / "memory.db").symlink_to("/etc/hostname")
    else:
        (shop.bank / "memory.db").write_bytes(content)
    with shop.no_workers_left():
        for verb in VERBS:
            shown = shop.event(hook_event_name="UserPromptSubmit", prompt=TASK)
            said = json.loads(shop.printed(verb, shown) or "{}").get("systemMessage", "")
            assert bool(said) == (verb == "session-start" and content != b"")
        assert shop.printed("session-start") == "", "it is said once"


def test_a_bank_that_came_with_a_clone_is_named_once_and_gets_not_even_a_log(
    learned: HookProject, tmp_path: Path
) -> None:
    clone = HookProject.made(tmp_path / "clone", learned.home)
    shutil.copytree(learned.root, clone.root, dirs_exist_ok=True)
    before = {path: path.read_bytes() for path in clone.bank.iterdir()}
    shown = json.loads(clone.printed("session-start"))
    assert shown.keys() == {"systemMessage"}
    assert "swarm-memory bank trust" in shown["systemMessage"]
    with clone.no_workers_left():
        for verb in VERBS:
            assert clone.printed(verb, clone.event(hook_event_name="UserPromptSubmit", prompt=TASK)) == ""
    assert {each.event for each in missed(clone.root)} >= {"UserPromptSubmit", "Stop", "SessionEnd"}
    assert {path: path.read_bytes() for path in clone.bank.iterdir()} == before
    clone.cli("bank", "trust", "--yes")
    assert clone.printed("session-start") == "", "whoever made the clone is not the user"
    assert SAID in clone.prompt("May I push to main without asking?")


def test_an_event_that_is_none_never_reaches_the_host(shop: HookProject) -> None:
    shop.cli("jobs", "work", "--until-idle")
    events = ("", "[]", "[" * 100_000, '{"session_id": 7}', "{}", '{"session_id": "../x"}')
    runs = [("no json", verb) for verb in (*VERBS, "no-such-verb")]
    for shown, verb in (*runs, *((each, verb) for each in events for verb in ("prompt", "session-end"))):
        assert shop.printed(verb, shown) == ""
    assert "no-such-verb: ValueError: there is no hook" in shop.log()
    assert "no-such-verb" in {each.event for each in missed(shop.root)}


def test_an_event_that_is_too_large_is_named(learned: HookProject) -> None:
    assert learned.printed("prompt", learned.event(prompt="x" * 8_000_000)) == ""
    (noted,) = missed(learned.root)
    assert "larger than 8,000,000 bytes" in noted.reason


def test_settings_of_a_clone_that_take_long_to_read_are_left_out(shop: HookProject) -> None:
    written(shop.bank / "config.yaml", f"retrieve: {{k: [{'[a],' * 10_000}]}}\n")
    assert shop.printed("stop") == ""
    assert missed(shop.root) == []
    assert "larger than 32,000 bytes" in shop.cli("status")


def test_a_log_that_a_pull_brought_holds_no_hook_up(learned: HookProject) -> None:
    theirs = learned.root.with_name("theirs.db")
    shutil.copy(learned.database, theirs)
    with closing(choose().module.connect(theirs, isolation_level=None)) as attacker:
        attacker.execute("PRAGMA journal_mode = WAL").fetchall()
        attacker.execute("UPDATE patterns SET standing = 1")
        shutil.copy(f"{theirs}-wal", f"{learned.database}-wal")
    for verb in ("session-start", "stop", "session-end"):
        assert "additionalContext" not in learned.printed(verb)
    assert {"bank trust" in each.reason for each in missed(learned.root)} == {True}


def test_a_hook_alone_finds_by_the_table_what_was_embedded_by_minilm(learned: HookProject) -> None:
    learned.extra["SWARM_MEMORY_EMBEDDING__PROVIDER"] = "auto"
    learned.cli("remember", "Ask the warehouse team before a migration locks the stock table")
    assert json.loads(learned.cli("status", "--json"))["embedder"] == "minilm-384-v1"
    assert learned.rows("SELECT model FROM vector_spaces ORDER BY model") == [
        ("minilm-384-v1",),
        ("static-minilm-256-v1",),
    ]
    assert "Ask the warehouse team" in learned.prompt("The migration locks the stock table: what is to be done first?")
    code = (
        "import sys\nfrom swarm_memory.server.hooks import main as hooks\n"
        "slow = {'onnxruntime', 'openai', 'mcp'}\n"
        "def leave(code):\n    print(sorted(slow & sys.modules.keys()))\n    sys.exit()\n"
        "hooks.os._exit = leave\nhooks.main(['prompt'])"
    )
    shown = learned.event(hook_event_name="UserPromptSubmit", prompt=TASK, session_id="s9")
    learned.extra["SWARM_MEMORY_EMBEDDING__PROVIDER"] = ""  # now nothing is configured, as for almost everybody
    said = learned.start("-c", code, given=shown).stdout
    assert "additionalContext" in said
    assert said.endswith("[]\n")


def test_the_hooks_of_the_plugin_stand_back_where_hooks_are_installed(learned: HookProject) -> None:
    shown = learned.event(hook_event_name="UserPromptSubmit", prompt=TASK)
    run = ("-m", "swarm_memory.server.hooks", "prompt", "--plugin")
    assert NOTE in learned.run(*run, given=shown).stdout
    learned.cli("install", "--yes")
    assert NOTE in learned.prompt(session="s2")
    assert learned.run(*run, given=shown).stdout == ""


def test_doctor_and_install_know_the_plugin(learned: HookProject) -> None:
    enabled = {"enabledPlugins": {"other@x": True, "swarm-memory@swarm-memory": True}}
    (learned.config / "settings.json").write_text(json.dumps(enabled))
    assert "the plugin swarm-memory@swarm-memory provides server and hooks" in learned.cli("doctor", "-v")
    assert "its hooks do nothing" in learned.cli("install", "--yes")
    assert "its hooks do nothing" in learned.cli("doctor")
    (learned.root / ".claude" / "settings.json").write_text('{"enabledPlugins": {"swarm-memory@swarm-memory": false}}')
    assert "plugin" not in learned.cli("doctor", "-v")
