"""The transcripts of Copilot CLI, Gemini CLI, OpenCode and Cursor as trajectories."""

import io
import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from hashlib import md5, sha256
from pathlib import Path

import pytest

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts import databases
from swarm_memory.server.hosts.host import host
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.tools.trajectory.reading import read as read_calls
from swarm_memory.tools.trajectory.tasks import is_own_tool
from tests.hosts import agent_records as made
from tests.hosts import codex_records
from tests.hosts.agent_records import FILE, FIRST, ITEM, SECOND, SESSION, STORIES, Record, spoilings, write_lines

HOSTS = ("codex", "copilot", "gemini", "opencode", "cursor")
ROLLOUT = f"rollout-2026-05-01T10-00-00-{SESSION}.jsonl"
FORMS: Mapping[str, Callable[[Path], Path]] = {
    **STORIES,
    "codex": lambda folder: write_lines(folder / ROLLOUT, codex_records.newer()),
}


def read(path: Path) -> list[Trajectory]:
    return list(read_trajectories(path))


@pytest.mark.parametrize("form", FORMS)
def test_every_agent_writes_the_same_story(form: str, tmp_path: Path) -> None:
    first, second = read(FORMS[form](tmp_path))
    assert (first.source, first.task, second.task) == (form.split(" ", maxsplit=1)[0], FIRST, SECOND)
    assert (first.task_id, second.task_id, first.agent_id) == (f"{SESSION}:1", f"{SESSION}:2", None)
    assert [step.kind for step in first.steps] == ["thought", "message", *3 * ("tool_call", "observation"), "message"]
    assert [step.text for step in second.steps] == ["Done."]
    assert first.injected_memory_ids == (ITEM,)
    assert second.injected_memory_ids == ()
    assert "user_info" not in str(first.steps)
    failed, edited, passed = read_calls(first).calls
    assert (failed.failed, failed.exit_code, failed.name) == (True, 1, "pytest")
    assert (edited.failed, edited.writes, edited.file) == (False, True, FILE)
    assert (passed.failed, passed.exit_code) == (False, 0)
    assert first.skipped_lines + second.skipped_lines == 0


@pytest.mark.parametrize("form", ["copilot", "gemini", "cursor_lines", "codex"])
def test_records_of_another_shape_are_never_fatal(form: str) -> None:
    records: list[Record] = codex_records.newer() if form == "codex" else getattr(made, form)()
    for number, record in enumerate(records[: None if form == "codex" else 8]):
        for spoiled in spoilings(record):
            changed = [*records[:number], spoiled, *records[number + 1 :]]
            lines = io.StringIO("".join(f"{json.dumps(each)}\n" for each in changed))
            assert list(read_trajectories(lines))


def test_a_session_of_another_shape_is_never_fatal() -> None:
    session = made.opencode()
    for message in session["messages"][:4]:
        for spoiled in spoilings(message):
            changed = {**session, "messages": [spoiled, *session["messages"][4:]]}
            assert list(read_trajectories(io.StringIO(json.dumps(changed))))


def test_records_of_unknown_kinds_are_counted(tmp_path: Path) -> None:
    strange: dict[str, Record] = {
        "copilot": made.event("teleport.begun", {}), "gemini": made.said(40, "teleport", "x"),
        "cursor_lines": {"type": "teleport"},
    }  # fmt: skip
    for form, record in strange.items():
        records: list[Record] = getattr(made, form)()
        found = read(write_lines(tmp_path / "s.jsonl", [*records[:5], record, *records[5:], {**record, "id": "m41"}]))
        assert [each.skipped_lines for each in found] == [1, 1], form
    session = made.opencode()
    session["messages"][1]["parts"].append({"type": "teleport"})
    assert [each.skipped_lines for each in read(write_lines(tmp_path / "s.jsonl", [session, session]))] == [1, 0, 1, 0]


def test_copilot_words_that_the_user_did_not_type_begin_no_task(tmp_path: Path) -> None:
    events = [
        *made.copilot()[:4],
        made.event("user.message", {"content": "Read the skill's files", "source": "skill-pdf"}),
        made.event("user.message", {"content": "Go on by yourself", "isAutopilotContinuation": True}),
        made.event("tool.execution_start", {"toolCallId": "s1", "toolName": "bash", "parentToolCallId": "c1"}),
        {**made.event("assistant.message", {"content": "I am a subagent."}), "agentId": "a1"},
        made.event("tool.execution_complete", {"toolCallId": "c1", "success": False,
                                               "error": {"code": "rejected", "message": "The user rejected it"}}),
        made.event("abort", {"reason": "user_initiated"}),
        made.event("session.error", {"message": "quota exceeded"}),
    ]  # fmt: skip
    (trajectory,) = read(write_lines(tmp_path / "events.jsonl", events))
    answer, stopped, failed = trajectory.steps[-3:]
    assert [step.kind for step in trajectory.steps[:-3]] == ["thought", "message", "tool_call"]
    assert (answer.is_error, answer.interrupted) == (True, True)
    assert (stopped.role, stopped.interrupted) == ("user", True)
    assert (failed.role, trajectory.broken_off) == ("system", "quota exceeded")


def test_a_chat_of_gemini_is_what_stands_after_all_its_changes(tmp_path: Path) -> None:
    lines = made.gemini()
    whole = {**lines[0], "messages": [each for each in lines if "content" in each]}
    path = tmp_path / "chats" / "session-2026-05-01T10-00-5f0c2a3e.json"
    (path.parent / SESSION).mkdir(parents=True)
    path.write_text(json.dumps(whole, indent=2))
    assert [each.content_digest for each in read(path)] == [
        each.content_digest for each in read(STORIES["gemini_cli"](tmp_path))
    ]
    (rewound,) = read(write_lines(tmp_path / "r.jsonl", [*lines, {"$rewindTo": "m6"}]))
    assert rewound.task == FIRST
    replaced = [*lines, {"$set": {"messages": [made.said(6, "user", SECOND)]}}, made.said(8, "error", "API down")]
    (other,) = read(write_lines(tmp_path / "s.jsonl", replaced))
    assert (other.task, other.broken_off) == (SECOND, "API down")
    child = [{**lines[0], "sessionId": "child", "kind": "subagent"}, *lines[1:]]
    write_lines(path.parent / SESSION / "child.jsonl", child)
    (*_, subagent) = read(path)
    assert (subagent.task_id, subagent.agent_id, subagent.session_id) == (f"{SESSION}:agent-child", "child", SESSION)


def test_a_call_of_gemini_that_was_cancelled_or_runs_on_has_no_exit_code(tmp_path: Path) -> None:
    calls = [
        made.gemini_call("c1", "run_shell_command", {"command": "serve"}, "Command moved to background (PID: 7)."),
        made.gemini_call("c2", "run_shell_command", {"command": "rm x"}, "[Operation Cancelled]", "cancelled"),
    ]
    (trajectory,) = read(
        write_lines(tmp_path / "c.jsonl", [*made.gemini()[:2], made.said(9, "gemini", "", toolCalls=calls)])
    )
    runs_on, cancelled = (step for step in trajectory.steps if step.kind == "observation")
    assert (runs_on.exit_code, runs_on.is_error) == (None, None)
    assert (cancelled.exit_code, cancelled.interrupted) == (None, True)


def test_opencode_leaves_out_what_was_taken_back_and_what_compaction_wrote(tmp_path: Path) -> None:
    session = made.opencode(revert={"messageID": "msg_6"})
    session["messages"].insert(2, made.opencode_message(2, "assistant", made.part_text("So far …"), summary=True))
    session["messages"].insert(
        3, made.opencode_message(3, "assistant", error={"name": "MessageAbortedError", "data": {}})
    )
    child = made.opencode(id="ses_child", parentID=SESSION)
    database = made.write_opencode(tmp_path / "opencode.db", made.opencode(), child, made.opencode(id="ses_other"))
    of_one = list(read_trajectories(database, session_id=SESSION))
    assert [each.task_id for each in of_one] == [f"{SESSION}:1", f"{SESSION}:2", f"{SESSION}:agent-ses_child"]
    found = read(write_lines(tmp_path / "s.jsonl", [session, child]))
    assert [each.task_id for each in found] == [f"{SESSION}:1", f"{SESSION}:agent-ses_child"]
    assert "So far" not in str(found[0].steps)
    assert [step.interrupted for step in found[0].steps if step.role == "user"] == [True]
    assert [step.text for step in found[1].steps if step.role == "user"] == [SECOND]


def test_opencode_distinguishes_a_tool_that_failed_from_a_command_that_did(tmp_path: Path) -> None:
    refused = made.opencode_tool("c1", "glob", {}, "")
    refused["state"] = {"status": "error", "input": {}, "error": "The user rejected permission to use this tool call."}
    cut_off = made.opencode_tool(
        "c2", "bash", {"command": "serve"}, "bash tool terminated command after exceeding timeout"
    )
    open_call: Record = {**made.opencode_tool("c3", "task", {}, ""), "state": {"status": "running", "input": {}}}
    messages = [made.opencode()["messages"][0], made.opencode_message(2, "assistant", refused, cut_off, open_call)]
    (trajectory,) = read(write_lines(tmp_path / "s.json", [{"info": {"id": "s"}, "messages": messages}]))
    glob, bash = (step for step in trajectory.steps if step.kind == "observation")
    assert (glob.is_error, glob.interrupted) == (True, True)
    assert (bash.is_error, bash.exit_code, bash.interrupted) == (True, None, False)


def test_a_line_of_cursor_without_ids_and_results_is_read(tmp_path: Path) -> None:
    call = {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}
    asked: Record = {"role": "user", "message": {"content": [made.part_text(FIRST)]}}
    called: Record = {"role": "assistant", "message": {"content": [call]}}
    lines = [asked, called, called, {"type": "turn_ended", "status": "aborted"}]
    path = write_lines(tmp_path / SESSION / f"{SESSION}.jsonl", lines)
    write_lines(path.parent / "subagents" / "child.jsonl", lines[:2])
    session, subagent = read(path)
    assert [step.kind for step in session.steps] == ["tool_call", "tool_call", "message"]
    assert (session.steps[-1].interrupted, subagent.task_id) == (True, f"{SESSION}:agent-child")


def test_a_database_is_read_with_its_log_and_left_as_it_is(tmp_path: Path) -> None:
    path = made.write_opencode(tmp_path / "opencode.db", made.opencode())
    before = path.read_bytes()
    assert len(read(path)) == 2
    assert (path.read_bytes(), [each.name for each in tmp_path.iterdir()]) == (before, ["opencode.db"])
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("UPDATE part SET data = replace(data, ?, 'Mend the lexer')", (FIRST,))
        writer.commit()
        assert read(path)[0].task == "Mend the lexer"
    plain = made.write_cursor(tmp_path / "c" / "store.db", made.cursor(), hex_meta=False)
    assert read(plain)[0].session_id == SESSION


@pytest.mark.parametrize(("hostile", "reason"), [
    ("CREATE VIEW session AS SELECT 1 AS id", "no table session"),
    ("CREATE TABLE session (id TEXT)", "no such column"),
])  # fmt: skip
def test_a_database_that_would_run_something_is_refused(hostile: str, reason: str, tmp_path: Path) -> None:
    path = made.write_opencode(tmp_path / "opencode.db", made.opencode())
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE session")
        connection.execute(hostile)
        connection.commit()
    with pytest.raises(InputError, match=reason):
        read(path)


def test_a_statement_has_a_time_limit_and_a_value_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made.write_opencode(tmp_path / "opencode.db", made.opencode())
    monkeypatch.setattr(databases, "MAX_LINE_CHARS", 1000)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE part SET data = data || ? WHERE id LIKE '%msg_2-001'", (" " * 2000,))
        connection.commit()
    assert [each.skipped_lines for each in read(path)] == [2, 0]  # the value, and a part without a type
    monkeypatch.setattr(databases, "TIMEOUT_S", -1.0)
    monkeypatch.setattr(databases, "_STEPS_BETWEEN_LOOKS", 1)
    began = time.monotonic()
    with pytest.raises(InputError, match="interrupted"):
        read(path)
    assert time.monotonic() - began < 2


def test_a_broken_database_is_an_error_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with pytest.raises(InputError, match="cannot be read as a database"):
        read(path)
    assert not databases.is_host_database(tmp_path / "memory.db")


def test_the_transcripts_of_a_project_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CODEX_HOME", "COPILOT_HOME", "GEMINI_CLI_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    shop, other = Path("/home/dev/shop"), Path("/home/dev/other")
    hashed = sha256(str(shop).encode()).hexdigest()
    every = {
        "codex": FORMS["codex"](tmp_path / ".codex/sessions/2026/05/01"),
        "copilot": STORIES["copilot_cli"](tmp_path / ".copilot/session-state"),
        "gemini": STORIES["gemini_cli"](tmp_path / ".gemini/tmp" / hashed / "chats"),
        "cursor": STORIES["cursor"](
            tmp_path / ".cursor/chats" / md5(str(shop).encode(), usedforsecurity=False).hexdigest()
        ),
        "opencode": STORIES["opencode"](tmp_path / ".local/share/opencode"),  # of all projects
    }
    STORIES["cursor lines"](tmp_path / ".cursor/projects/home-dev-shop/agent-transcripts")
    for name in HOSTS:
        find = host(name).transcripts.find
        assert list(find(None)) == [every[name]], name
        assert list(find(shop)) == ([] if name == "opencode" else [every[name]]), name
        assert list(find(other)) == [], name


@pytest.mark.parametrize("name", [
    "mcp_swarm-memory_retrieve_memories", "swarm-memory_retrieve_memories", "swarm-memory-retrieve_memories",
])  # fmt: skip
def test_our_own_tools_are_left_out_by_whatever_name(name: str, tmp_path: Path) -> None:
    assert is_own_tool(name)
    calls = [made.gemini_call("c1", name, {"query": "x"}, f"[{ITEM}] Run the tests first.")]
    lines = [made.gemini()[0], made.said(1, "user", FIRST), made.said(9, "gemini", "", toolCalls=calls)]
    (trajectory,) = read(write_lines(tmp_path / "c.jsonl", lines))
    assert (trajectory.steps, trajectory.injected_memory_ids) == ((), (ITEM,))
