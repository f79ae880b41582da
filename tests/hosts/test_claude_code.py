"""A transcript of Claude Code as trajectories, one for each task."""

import json
from pathlib import Path
from typing import Any

import pytest
from claude_lines import SESSION, call, line, prompt, result, says, text, write

from swarm_memory.schema.errors import InputError, NotFoundError
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts import session as host_session
from swarm_memory.server.hosts.claude_code.transcripts import subagent_files
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.tools.learn.worth import question
from swarm_memory.tools.text.cleaning import NOTES_CLOSE, NOTES_OPEN

ITEM, OTHER = "rm_01JABCDEFGHJKMNPQRSTVWXYZ0", "rm_01JABCDEFGHJKMNPQRSTVWXYZ1"
FIRST = "Fix the failing login test in tests/test_auth.py"
SECOND = "Write a script that converts CSV files to JSON"


def read(path: Path, task_id: str | None = None, **more: object) -> list[Trajectory]:
    return list(read_trajectories(path, task_id, **more))  # type: ignore[arg-type]


def one(tmp_path: Path, *lines: dict[str, object] | str) -> Trajectory:
    (trajectory,) = read(write(tmp_path / "s.jsonl", lines))
    return trajectory


def test_a_prompt_and_what_followed_it_become_one_trajectory(tmp_path: Path) -> None:
    trajectory = one(
        tmp_path,
        prompt(FIRST),
        says({"type": "thinking", "thinking": "Look first."}, id="m1"),
        says(text("I run the test."), id="m1"),
        says(call("t1", "pytest"), id="m1"),
        result("t1", "Exit code 1\nFAILED test_login", error=True),
        says(call("t2", "pytest"), id="m2"),
        result("t2", "1 passed"),
        says(text("Done."), id="m3"),
    )
    assert (trajectory.task_id, trajectory.task, trajectory.source) == (f"{SESSION}:1", FIRST, "claude_code")
    assert [step.kind for step in trajectory.steps] == [
        "thought", "message", "tool_call", "observation", "tool_call", "observation", "message"
    ]  # fmt: skip
    assert [step.id for step in trajectory.steps] == [f"s{number}" for number in range(1, 8)]
    failed, passed = trajectory.steps[3], trajectory.steps[5]
    assert (failed.tool_name, failed.call_id, failed.is_error, failed.exit_code) == ("Bash", "t1", True, 1)
    assert (passed.is_error, passed.exit_code, trajectory.steps[2].tool_input) == (False, 0, {"command": "pytest"})
    assert trajectory.started_at is not None
    assert trajectory.ended_at is not None
    assert trajectory.started_at < trajectory.ended_at


def test_tokens_are_counted_once_for_each_message(tmp_path: Path) -> None:
    usage = {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 11, "cache_creation_input_tokens": 13}
    trajectory = one(
        tmp_path,
        prompt(FIRST),
        says(text("a"), id="m1", usage=usage | {"output_tokens": 1}),
        says(call("t1", "ls"), id="m1", usage=usage),
        says(text("b"), id="m2", usage=usage),
    )
    counted = trajectory.usage
    assert (counted.input_tokens, counted.output_tokens) == (10, 14)
    assert (counted.cache_read_tokens, counted.cache_creation_tokens) == (22, 26)


def test_a_prompt_that_continues_belongs_to_the_task_and_another_begins_one(tmp_path: Path) -> None:
    path = write(
        tmp_path / "s.jsonl",
        [
            prompt(FIRST),
            says(text("Fixed.")),
            prompt("still failing"),
            says(text("Now.")),
            prompt(SECOND),
            says(text("Ok.")),
        ],
    )
    first, second = read(path)
    assert [step.text for step in first.steps] == ["Fixed.", "still failing", "Now."]
    assert first.steps[1].role == "user"
    assert (second.task_id, second.task) == (f"{SESSION}:2", SECOND)


def test_what_the_host_wrote_is_not_taken_for_a_persons_words(tmp_path: Path) -> None:
    trajectory = one(
        tmp_path,
        {"type": "summary", "summary": "old", "leafUuid": "x"},
        line("file-history-snapshot", snapshot={}),
        prompt("Warm up the cache of the search please now", isSidechain=True),
        prompt("<local-command-caveat>Caveat</local-command-caveat>", isMeta=True),
        prompt("This session is being continued from an earlier one", isCompactSummary=True),
        prompt([text("<ide_opened_file>The user opened a.py</ide_opened_file>"), text(FIRST)]),
        prompt("<local-command-stdout>(no content)</local-command-stdout>"),
        prompt("<task-notification>\n<status>killed</status>\n</task-notification>"),
        says(text("Done.")),
        line("assistant", {"model": "<synthetic>", "role": "assistant", "content": [text("No response requested.")]}),
        line("system", subtype="turn_duration"),
    )
    assert trajectory.task == FIRST
    assert [step.text for step in trajectory.steps] == ["Done."]


BROKEN_OFF = line(
    "assistant",
    {"model": "<synthetic>", "role": "assistant", "content": [text("API Error: Connection error.")]},
    isApiErrorMessage=True,
)


def test_a_task_whose_last_word_is_the_hosts_broken_connection_was_broken_off(tmp_path: Path) -> None:
    began = one(tmp_path, prompt(FIRST), BROKEN_OFF)
    assert (began.broken_off, began.has_acts) == ("API Error: Connection error.", False)
    worked = one(tmp_path, prompt(FIRST), says(call("t1", "pytest")), result("t1", "1 passed"), BROKEN_OFF)
    assert (worked.broken_off, worked.has_acts) == ("API Error: Connection error.", True)
    asked_again = one(tmp_path, prompt(FIRST), says(text("I look.")), BROKEN_OFF, prompt("go on"))
    assert asked_again.broken_off is not None
    gone_on_with = one(tmp_path, prompt(FIRST), BROKEN_OFF, prompt("go on"), says(text("Done.")))
    assert gone_on_with.broken_off is None


def test_what_a_slash_command_did_belongs_to_no_task(tmp_path: Path) -> None:
    trajectory = one(
        tmp_path,
        prompt(FIRST),
        says(text("Done.")),
        prompt("<command-message>publish</command-message>\n<command-name>/publish</command-name>"),
        prompt("Publish the session by running x", isMeta=True),
        says(call("t9", "publish")),
        result("t9", "Exit code 1\nno", error=True),
        prompt("thanks"),
        says(text("You are welcome.")),
    )
    assert [step.text for step in trajectory.steps] == ["Done.", "thanks", "You are welcome."]
    trajectory = one(tmp_path, prompt(FIRST), prompt("<command-name>/model</command-name>"), says(text("Going on.")))
    assert [step.text for step in trajectory.steps] == ["Going on."], "this one only changes the host"


def test_an_interruption_is_marked(tmp_path: Path) -> None:
    trajectory = one(
        tmp_path,
        prompt(FIRST),
        says(call("t1", "rm x")),
        result("t1", "The user doesn't want to proceed with this tool use. It was rejected.", error=True),
        prompt([text("[Request interrupted by user for tool use]")]),
    )
    assert [step.interrupted for step in trajectory.steps] == [False, True, True]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, 0),
        ({"interrupted": True}, None),
        ({"backgroundTaskId": "b1"}, None),
        ({"returnCodeInterpretation": "no match"}, None),
    ],
)
def test_only_a_command_that_the_host_reports_as_done_has_exit_code_0(
    tmp_path: Path, given: dict[str, Any], code: int | None
) -> None:
    words = "Exit code 3 was seen before"
    trajectory = one(tmp_path, prompt(FIRST), says(call("t1", "make")), result("t1", words, **given))
    assert trajectory.steps[1].exit_code == code


def test_our_own_words_never_come_back(tmp_path: Path) -> None:
    notes = f"{NOTES_OPEN}\n1) always use uv [{ITEM}]\n{NOTES_CLOSE}"
    own = "mcp__swarm-memory__retrieve_memories"
    injected = {"type": "hook_additional_context", "hookEvent": "UserPromptSubmit", "content": [f"x {notes}"]}
    trajectory = one(
        tmp_path,
        prompt(f"{FIRST}\n{notes}"),
        line("attachment", attachment=injected),
        says(call("t1", "query", tool=own)),
        result("t1", f"use uv {OTHER}"),
        says(call("t2", f"echo '{notes}'")),
        result("t2", f"before {notes} after"),
        says(text(f"I follow {notes}.")),
    )
    assert trajectory.task == FIRST
    assert "always use uv" not in trajectory.model_dump_json()
    assert own not in trajectory.model_dump_json()
    assert trajectory.steps[1].text == "before  after"
    assert trajectory.injected_memory_ids == (ITEM, OTHER)


def test_notes_from_the_start_of_the_session_count_for_its_first_task(tmp_path: Path) -> None:
    briefing = {"hookEvent": "SessionStart", "content": [f"{NOTES_OPEN}\n1) Lint first [{ITEM}]\n{NOTES_CLOSE}"]}
    path = write(tmp_path / "s.jsonl", [line("attachment", attachment=briefing), prompt(FIRST), prompt(SECOND)])
    assert [each.injected_memory_ids for each in read(path)] == [(ITEM,), ()]


def test_a_prompt_typed_meanwhile_is_part_of_the_task_and_lines_that_are_repeated_are_read_once(tmp_path: Path) -> None:
    queued = line("attachment", attachment={"type": "queued_command", "prompt": SECOND, "commandMode": "prompt"})
    trajectory = one(tmp_path, prompt(FIRST), says(text("Working.")), queued, says(text("Both done.")))
    assert [step.text for step in trajectory.steps] == ["Working.", SECOND, "Both done."]
    lines = [prompt(FIRST), says(call("t1", "ls"), id="m1"), result("t1", "a.py")]
    copies = [dict(each, uuid=f"copy-{number}") for number, each in enumerate(lines)]
    trajectory = one(tmp_path, *lines, *lines, *copies[1:])
    assert [step.kind for step in trajectory.steps] == ["tool_call", "observation"]


def test_a_subagent_has_a_trajectory_of_its_own(tmp_path: Path) -> None:
    main = write(
        tmp_path / f"{SESSION}.jsonl", [prompt(FIRST), says(call("t1", "look", tool="Task")), result("t1", "found")]
    )
    side: dict[str, Any] = {"isSidechain": True, "agentId": "a77"}
    agent = [prompt("Find all users of login()", **side), says(call("t2", "grep"), **side), prompt(SECOND, **side)]
    path = write(tmp_path / SESSION / "subagents" / "agent-a77.jsonl", agent)
    own, subagents = read(main, subagents=False), read(main)[1:]
    assert [each.task_id for each in own] == [f"{SESSION}:1"]
    assert [(each.task_id, each.agent_id, each.task) for each in subagents] == [
        (f"{SESSION}:agent-a77", "a77", "Find all users of login()")
    ]
    assert [step.kind for step in subagents[0].steps] == ["tool_call", "message"]
    assert subagent_files(main) == [path]
    assert read(path) == subagents
    assert read(main, f"{SESSION}:agent-a77") == subagents


def test_one_task_is_found_by_its_number_or_its_id(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", [prompt(FIRST), says(text("a")), prompt(SECOND), says(text("b"))])
    assert [each.task_id for each in read(path, session_id="mine")] == ["mine:1", "mine:2"]
    assert [each.task for each in read(path, "2")] == [SECOND]
    assert [each.task for each in read(path, f"{SESSION}:1")] == [FIRST]
    with pytest.raises(NotFoundError, match=r"no task '3'.*:1.*:2"):
        read(path, "3")


def test_lines_that_cannot_be_read_are_counted_and_the_rest_is_kept(tmp_path: Path) -> None:
    deep = '{"type": "user", "message": ' + "[" * 100_000
    broken = ["// a comment", '{"type": "user", "cut', deep, '{"a": NaN}', "[1, 2", "\x00\x01", "9" * 5000]
    trajectory = one(tmp_path, *broken[:2], prompt(FIRST), *broken[2:], "", "[]", "17", says(text("Done.")))
    assert (trajectory.skipped_lines, [step.text for step in trajectory.steps]) == (len(broken), ["Done."])


def test_texts_come_out_clean(tmp_path: Path) -> None:
    said = "Fix \\ud800 the\\u0000 \\u001b[31mred\\u202e test"
    dirty = f'{{"type":"user","uuid":"d","sessionId":"s","message":{{"role":"user","content":"{said}"}}}}'
    trajectory = one(tmp_path, dirty, says(call("t1", "a\x00b\x1b[0m")))
    assert (trajectory.task, trajectory.steps[0].tool_input) == ("Fix \ufffd the red test", {"command": "ab"})
    trajectory.model_dump_json().encode("utf-8")


def test_input_of_a_tool_is_bounded_in_every_direction(tmp_path: Path) -> None:
    nested: object = "deep"
    for _ in range(200):
        nested = [nested]
    wide, long = ["x" * 13_000] * 500, "x" * 1_000_000  # more than half of what is kept of all steps
    block = {"type": "tool_use", "id": "t1", "name": "X", "input": {"a": nested, "b": wide, "c": 1e999, "d": long}}
    said = json.dumps(says(block)).replace("Infinity", "1e999")  # that is JSON, and too large
    trajectory = one(tmp_path, prompt(FIRST), said)
    assert (trajectory.skipped_lines, len(trajectory.steps), len(str(trajectory)) < 1_000_000) == (0, 1, True)


def test_steps_that_do_not_fit_fall_out_of_the_middle_and_so_does_what_is_too_long_in_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_session, "MAX_STEPS", 10)
    monkeypatch.setattr(host_session, "MAX_READ_CHARS", 300)
    path = write(tmp_path / "s.jsonl", [prompt(FIRST), *(says(text(f"step {number}")) for number in range(1, 31))])
    (trajectory,) = read(path)
    assert trajectory.dropped_steps == 20
    assert [step.text for step in trajectory.steps] == [f"step {n}" for n in (1, 2, 3, 4, 5, 26, 27, 28, 29, 30)]
    path = write(tmp_path / "s.jsonl", [prompt(FIRST), says(text("begin " + "x" * 5000 + " end"))])
    (trajectory,) = read(path)
    said = trajectory.steps[0].text
    assert (len(said) <= 300, said[:5], said[-3:]) == (True, "begin", "end")


def test_a_session_without_a_task_gives_nothing_and_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert read(write(tmp_path / "s.jsonl", [{"type": "summary", "summary": "x", "leafUuid": "y"}])) == []
    with pytest.raises(InputError, match=r"no file '/nowhere/x\.jsonl'"):
        list(read_trajectories("/nowhere/x.jsonl"))


def test_what_an_agent_says_when_it_was_asked_what_the_task_taught_is_no_part_of_the_task(tmp_path: Path) -> None:
    work = [prompt(FIRST), says(call("t1", "pytest")), result("t1", "1 passed"), says(text("Done."))]
    content = [f"{question()}"]
    attachment = {"type": "hook_additional_context", "hookEvent": "Stop", "content": content}
    asked: dict[str, Any] = {"type": "attachment", "sessionId": SESSION, "uuid": "a1", "attachment": attachment}
    own = {**call("o1", "", tool="mcp__swarm-memory__remember"), "input": {"outcome": "Success"}}
    answer = [asked, says(text("I note it."), own), result("o1", "{}"), says(text("Noted."))]
    before, after = one(tmp_path, *work), one(tmp_path, *work, *answer)
    assert (before.steps, before.outcome, after.outcome) == (after.steps, None, "Success")
    assert before.content_digest != after.content_digest, "what the agent says of it is learned from"
    continued = one(tmp_path, *work, *answer, prompt("thanks, that works"), says(text("Good.")))
    assert [step.text for step in continued.steps[-2:]] == ["thanks, that works", "Good."]
    went_on = one(tmp_path, *work, asked, says(call("t2", "git commit")), result("t2", "ok"), says(text("Committed.")))
    assert [step.text for step in went_on.steps[-2:]] == ["ok", "Committed."]
