"""Agents that act in plain text: what counts as a call, what answers it, and what stays prose."""

import io
import json
import time
from typing import Any

import pytest
from patience import FULL

from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.tools.trajectory import reading
from swarm_memory.tools.trajectory.calls import Call, calls_of

Message = dict[str, Any]


def agent(text: str) -> Message:
    return {"role": "assistant", "content": text}


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def tool(text: str) -> Message:
    return {"role": "tool", "content": text}


def read(*messages: Message, **record: Any) -> Trajectory:
    (trajectory,) = read_trajectories(io.StringIO(json.dumps({"id": "run", "messages": list(messages)} | record)))
    return trajectory


def calls(*messages: Message, **record: Any) -> tuple[Call, ...]:
    return calls_of(read(*messages, **record))


def told(call: Call) -> tuple[str, Any, str, int | None]:
    return call.tool, dict(call.input), call.output, call.exit_code


def shown(steps: tuple[Step, ...]) -> list[tuple[str, str]]:
    return [(step.kind, step.tool_name or "" if step.kind == "tool_call" else step.text) for step in steps]


def output(code: int, text: str) -> Message:
    return user(f"<returncode>{code}</returncode>\n<output>\n{text}\n</output>")


BLOCK = "{name}\n```python\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n```\n"
PROMPT = (
    "Work on this.\n<pr_description>\nConsider the following PR description:\nadd() loses the sign\n</pr_description>"
)


def test_one_command_in_a_fence_for_each_message_is_a_call_with_the_exit_code_of_its_answer() -> None:
    trajectory = read(
        {"role": "system", "content": "You can use a shell."},
        user(PROMPT),
        agent("THOUGHT: I look.\n\n```bash\nls src\n```"),
        output(0, "sums.py"),
        agent("THOUGHT: I test.\n\n```mswea_bash_command\npytest -q\n```"),
        output(1, "1 failed in 0.10s"),
        agent("THOUGHT: Done.\n```bash\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff\n```"),
    )
    assert trajectory.task == "add() loses the sign"
    assert [told(call) for call in calls_of(trajectory)] == [
        ("bash", {"command": "ls src"}, "sums.py", 0),
        ("bash", {"command": "pytest -q"}, "1 failed in 0.10s", 1),
        ("submit", {"input": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff"}, "", None),
    ]
    assert [step.text for step in trajectory.steps if step.kind == "thought"] == ["I look.", "I test.", "Done."]
    assert calls_of(trajectory)[1].failed
    assert calls_of(trajectory)[2].ends_task


def test_what_a_harness_reminds_of_is_neither_a_result_nor_the_users_word() -> None:
    trajectory = read(
        user("Fix add()"),
        agent("```bash\nls\n```"),
        output(0, "sums.py"),
        agent("I will now run\n```bash\nls\n```\nand\n```bash\npwd\n```"),
        user("Please always provide EXACTLY ONE action in triple backticks, found 2 actions."),
        agent("```bash\npwd\n```"),
        output(0, "/work"),
    )
    assert [call.input["command"] for call in calls_of(trajectory)] == ["ls", "pwd"]
    assert [step.role for step in trajectory.steps if step.text.startswith("Please always")] == ["system"]


def test_a_code_block_in_a_talk_and_one_in_the_last_answer_are_no_calls() -> None:
    talk = (
        user("How do I list files?"),
        agent("Use this:\n```bash\nls -la\n```"),
        user("It still fails, what now?"),
        agent("Then:\n```bash\nls -R\n```"),
        user("thanks"),
    )
    trajectory = read(*talk)
    assert calls_of(trajectory) == ()
    assert [step.text for step in trajectory.steps if step.role == "user"] == ["It still fails, what now?", "thanks"]
    worked = calls(
        user("Fix add()"), agent("```bash\nls\n```"), output(0, "a"), agent("Done. Run it with\n```bash\npytest\n```")
    )
    assert [call.input["command"] for call in worked] == ["ls"]


def test_a_user_who_pastes_an_output_once_still_corrects() -> None:
    trajectory = read(
        user("How do I build it?"), agent("Run\n```bash\nmake\n```"), user("Output:\nmake: no rule"),
        agent("Then\n```bash\nmake all\n```"), user("Please always show the folder too. It still fails."), agent("Hm."),
    )  # fmt: skip
    assert [step.text for step in trajectory.steps if step.role == "user"] == [
        "Please always show the folder too. It still fails."
    ]


def test_what_the_task_tells_of_runs_is_the_task() -> None:
    asked = "I ran this command:\npytest\nand it failed"
    trajectory = read(
        user(asked), agent("```bash\nls\n```"), output(0, "a"), agent("```bash\npwd\n```"), output(0, "/")
    )
    assert (trajectory.task, len(calls_of(trajectory))) == (asked, 2)


def test_a_user_who_tells_of_a_run_tells_of_a_call() -> None:
    told_of = "I ran this command:\n\npytest -q\n\nAnd got this output:\n\n1 failed in 0.10s"
    edit = BLOCK.format(name="a.py", old="x", new="y")
    found = calls(user("Fix a.py"), agent(edit), user(f"Applied edit to a.py\n{told_of}"), agent(edit), user(told_of))
    assert [(call.tool, call.output.partition("\n")[0]) for call in found] == [
        ("edit", "Applied edit to a.py"),
        ("bash", "And got this output:"),
        ("edit", ""),
        ("bash", "And got this output:"),
    ]
    assert found[1].failed


def test_where_real_calls_are_made_a_fence_is_prose() -> None:
    made = {"id": "c1", "function": {"name": "Bash", "arguments": '{"command": "ls"}'}}
    trajectory = read(
        user("Fix add()"),
        agent("I would run\n```bash\nrm -r build\n```") | {"tool_calls": [made]},
        {"role": "tool", "tool_call_id": "c1", "content": "sums.py\n[The command completed with exit code 2.]"},
        agent("```bash\npwd\n```"),
        tool("late"),
    )
    assert [told(call) for call in calls_of(trajectory)] == [("Bash", {"command": "ls"}, "sums.py", 2)]


def test_an_edit_by_a_line_editor_that_was_not_refused_is_a_change() -> None:
    state = "(Open file: /repo/sums.py)\n(Current directory: /repo)\nbash-$"
    trajectory = read(
        user("Fix the sign. Use the commands of the shell."),
        agent("I open it.\n```\nopen sums.py 3\n```"),
        user(f"[File: /repo/sums.py (9 lines total)]\n1:def add(a, b):\n{state}"),
        agent("I edit.\n```\nedit 2:2\n    return a + b\nend_of_edit\n```"),
        user(f"Your proposed edit has introduced new syntax error(s).\n{state}"),
        agent("Again.\n```\nedit 2:3\n    return (a +\n        b)\nend_of_edit\n```"),
        user(f"[File: /repo/sums.py (10 lines total)]\n2:    return (a +\nFile updated. Please review.\n{state}"),
        agent("```\nsubmit\n```"),
    )
    opened, refused, edited, ended = calls_of(trajectory)
    assert (opened.input, opened.writes) == ({"command": "open sums.py 3"}, False)
    assert (refused.failed, edited.failed) == (True, False)
    assert edited in reading.read(trajectory).changes
    assert "Open file" not in edited.output
    assert ended.ends_task


def test_search_and_replace_blocks_are_edits_and_the_harness_own_tests_are_calls() -> None:
    blocks = (BLOCK.format(name="src/a.py", old="x", new="y"), BLOCK.format(name="src/b.py", old="p", new="q"))
    trajectory = read(
        agent("I change two files.\n" + "".join(blocks)),
        tool(
            "Applied edit to src/a.py\n# 1 SEARCH/REPLACE block failed to match!\n\n"
            "## NoExactMatch: This SEARCH block failed to exactly match lines in src/b.py\n\n"
            "Test Script: env run pytest -q;\nStd. Output:\n2 failed, 1 passed in 0.20s\n[x] Return Code: 1"
        ),
        {"role": "system", "content": "(the harness starts a new attempt, attempt 2)"},
        agent(BLOCK.format(name="**src/b.py**", old="p1", new="q")),
        tool("Applied edit to src/b.py\nTest Script: env run pytest -q\n3 passed in 0.20s\nReturn Code: 0"),
        task="Fix it",
    )  # fmt: skip
    first, second, tests, third, again = calls_of(trajectory)
    assert first.input == {"file_path": "src/a.py", "old_string": "x", "new_string": "y"}
    assert (first.failed, first.output) == (False, "Applied edit to src/a.py")
    assert (second.failed, second.output.partition("\n")[0][:20]) == (True, "## NoExactMatch: Thi")
    assert (tests.step.role, tests.input["command"], tests.exit_code) == ("system", "env run pytest -q", 1)
    assert (third.input["file_path"], third.failed, again.exit_code) == ("src/b.py", False, 0)
    assert "SEARCH" not in " ".join(step.text for step in trajectory.steps if step.kind == "message")


@pytest.mark.parametrize(
    ("written", "name", "expected"),
    [
        (
            "```diff\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n def f():\n-    x\n+    y\n```",
            "edit",
            {"file_path": "a.py", "old_string": "def f():\n    x", "new_string": "def f():\n    y"},
        ),
        (
            "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** End Patch",
            "edit",
            {"file_path": "a.py", "old_string": "x", "new_string": "y"},
        ),
        (
            "*** Begin Patch\n*** Add File: a.py\n+x\n+y\n*** End Patch",
            "write",
            {"file_path": "a.py", "content": "x\ny"},
        ),
        ("Here it is:\n\n`a.py`\n```python\nx = 1\n```", "write", {"file_path": "a.py", "content": "x = 1\n"}),
    ],
    ids=["diff", "patch", "added file", "whole file"],
)
def test_other_blocks_of_edits_are_read(written: str, name: str, expected: Message) -> None:
    (call,) = calls(user("Change a.py"), agent(written), tool("Applied edit to a.py"))
    assert (call.tool, call.input, call.failed) == (name, expected, False)


def test_react_lines_of_a_message_are_answered_by_the_next() -> None:
    trajectory = read(
        user("Find the file"),
        agent("Thought: I list.\nAction: execute[ls /]\nObservation: I imagine etc"),
        tool("bin\netc"),
        agent("Thought: I search."),
        agent("search[deep thought]"),
        tool("No results"),
        agent("Thought: more\nAction: lookup\nAction Input: {\"page\": 2}"),
        tool("nothing"),
        agent("Thought: Enough.\nAction: Finish[42]"),
    )  # fmt: skip
    assert [(call.tool, call.input, call.output) for call in calls_of(trajectory)] == [
        ("execute", {"command": "ls /"}, "bin\netc"),
        ("search", {"input": "deep thought"}, "No results"),
        ("lookup", {"page": 2}, "nothing"),
    ]
    assert trajectory.steps[-1].text == "42"
    assert [step.text for step in trajectory.steps if step.kind == "thought"] == [
        "I list.", "I search.", "more", "Enough."
    ]  # fmt: skip


@pytest.mark.parametrize(
    "said", ["find the bug in sums.py", "I list the files", "To fix it, add these files.", "done."]
)
def test_a_sentence_that_a_tool_answers_is_no_command(said: str) -> None:
    assert calls(user("Fix it"), agent(said), tool("sums.py\nAdd these files? yes")) == ()


def test_bare_commands_and_named_calls_are_read_where_a_tool_answers() -> None:
    found = calls(
        user("Look"), agent("cat a.txt"), tool("hello"), agent("frob --now a.txt"),
        tool("bash: frob: command not found"), agent("submit flag{1}"), tool(""), agent("All is done."),
    )  # fmt: skip
    assert [(call.tool, call.input) for call in found] == [
        ("bash", {"command": "cat a.txt"}), ("bash", {"command": "frob --now a.txt"}), ("submit", {"input": "flag{1}"})
    ]  # fmt: skip
    assert found[1].failed
    named = calls(
        user("Repair"), agent('read_file {"path": "a.py"}'), agent('I read on.\nread_file {"path": "b.py"}'),
        tool('{"content": "A"}'), tool('{"content": "B"}'), agent("run_tests {}"),
        tool('{"status": "failed", "exit_code": 1, "failed": 2}'), agent("I am done."),
    )  # fmt: skip
    assert [(call.tool, call.output) for call in named[:2]] == [
        ("read_file", '{"content": "A"}'), ("read_file", '{"content": "B"}')
    ]  # fmt: skip
    assert (named[2].tool, named[2].exit_code, named[2].failed) == ("run_tests", 1, True)


@pytest.mark.parametrize(
    ("written", "tool_name", "given"),
    [
        ("<execute_bash>\nls\n</execute_bash>", "bash", {"command": "ls"}),
        ("<bash>ls</bash>", "bash", {"command": "ls"}),
        ("<function=execute_bash>\n<parameter=command>ls</parameter>\n</function>", "execute_bash", {"command": "ls"}),
        ('<tool_call>\n{"name": "shell", "arguments": {"command": "ls"}}\n</tool_call>', "shell", {"command": "ls"}),
        ("<read_file>\n<path>a.py</path>\n</read_file>", "read_file", {"path": "a.py"}),
        ("<think>I plan\n```bash\nrm x\n```\n</think>\n```sh\nls\n```", "bash", {"command": "ls"}),
    ],
)
@pytest.mark.parametrize(
    "answer",
    ["OBSERVATION:\na.py\n[Command finished with exit code 3]", "EXECUTION RESULT of [x]:\na.py\n[exit code: 3]"],
)
def test_calls_in_tags_are_answered_by_a_harness_that_speaks_as_the_user(
    written: str, tool_name: str, given: Message, answer: str
) -> None:
    (call,) = calls(user("Look around"), agent(f"I look.\n{written}"), user(answer))
    assert told(call) == (tool_name, given, "a.py", 3)


@pytest.mark.parametrize(
    ("answer", "text", "is_error"),
    [
        ('{"content": [{"type": "text", "text": "no such page"}], "isError": true}', "no such page", True),
        ('{"content": [{"type": "text", "text": "found"}], "isError": false}', "found", False),
        ("meta=None content=[TextContent(type='text', text='no')] isError=True", "meta=None", True),
        ('{"returncode": 2, "output": "bad option"}', "bad option", None),
    ],
)
def test_results_as_json_or_as_printed_say_how_the_call_ended(answer: str, text: str, is_error: bool | None) -> None:
    made = {"id": "c1", "function": {"name": "fetch", "arguments": "{}"}}
    for messages in (
        (agent("") | {"tool_calls": [made]}, {"role": "tool", "tool_call_id": "c1", "content": answer}),
        (agent("fetch {}"), tool(answer)),
    ):
        (call,) = calls(user("Fetch the page"), *messages)
        assert call.observation is not None
        assert call.observation.is_error is is_error
        assert call.output.startswith(text)
        assert call.failed == (is_error is not False)


def test_a_harness_that_begins_again_is_not_the_user_who_corrects() -> None:
    trajectory = read(user("Fix it"), agent("I could not."), user("The harness starts a new attempt."), agent("Again."))
    assert [step.role for step in trajectory.steps] == ["assistant", "system", "assistant"]


@pytest.mark.parametrize("opening", ["<issue>", "<pr_description>", "<task>"])
def test_a_tag_that_is_never_closed_marks_no_task(opening: str) -> None:
    assert read(user(f"Read {opening} please"), agent("ok")).task == f"Read {opening} please"


@pytest.mark.parametrize(
    "piece",
    ["```bash\n", "<bash>", "<function=x>", "<parameter=y>", "<<<<<<< SEARCH\n", "=======\n", "--- a\n", "@@\n",
     "Action: ", "Thought:\n", "Observation:\n", "*** Begin Patch\n", "a {", "{", "exit code: ", "<think>", "x" * 99,
     " ", "*", "- -", "(Open file: ", "failed to ", "[File: ", "Test Script: \n", "I ran this command:\n",
     "Applied edit to x\n"],
)  # fmt: skip
def test_a_long_message_is_read_in_time(piece: str) -> None:
    length = 1_000_000 if FULL else 250_000
    text = piece * (length // len(piece))
    begun = time.process_time()
    read(user("Fix it"), agent(text), tool(text))
    read(user("Fix it"), agent("```bash\nls\n```"), output(0, "a"), agent(text), output(0, text))
    assert time.process_time() - begun < 4e-6 * length


def test_a_line_editor_is_known_by_what_a_tool_answers_too() -> None:
    trajectory = read(
        user("Look"), agent("I make it.\n```\ncreate try.py\n```"),
        tool("[File: /repo/try.py (1 lines total)]\n1:\n(Open file: /repo/try.py)\n(Current directory: /repo)\nbash-$"),
        agent("```\nsearch_dir \"def add\" src\n```"),
        tool("Found 1 matches\n(Open file: /repo/try.py)\n(Current directory: /repo)\nbash-$"),
        agent("```\nedit 1:1\nprint(1)\nend_of_edit\n```"),
        tool("File updated.\n(Open file: /repo/try.py)\n(Current directory: /repo)\nbash-$"),
    )  # fmt: skip
    made, looked, edited = calls_of(trajectory)
    assert reading.read(trajectory).changes == (made, edited)
    assert not looked.writes
    (file,) = reading.read(trajectory).files
    assert (file.path, file.is_own) == ("try.py", True)


def test_commands_typed_into_a_terminal_as_json_are_calls() -> None:
    plan = {"analysis": "Empty.", "plan": "I look.", "commands": [{"keystrokes": "ls\n", "duration": 0.1}]}
    done: Message = {"analysis": "There.", "commands": [], "task_complete": True}
    trajectory = read(
        user("You type into a terminal.\n\nTask Description:\nMake a.txt\n\nCurrent terminal state:\n$"),
        agent(json.dumps(plan)),
        user("New Terminal Output:\n\na.txt"),
        agent(f"```json\n{json.dumps(done, indent=1)}\n```"),
        user("Current terminal state:\n$"),
    )
    assert trajectory.task == "Make a.txt"
    first, last = calls_of(trajectory)
    assert (first.input, first.output, last.ends_task) == ({"command": "ls"}, "a.txt", True)
    assert [step.text for step in trajectory.steps if step.kind == "thought"] == ["Empty.\nI look.", "There."]


@pytest.mark.parametrize("key", ["history", "trajectory", "messages"])
def test_lists_of_other_names_are_read_without_the_demonstration(key: str) -> None:
    record = {"instance_id": "r", "task": "Fix", key: [
        {"role": "assistant", "content": "```\nrm\n```", "is_demo": True},
        {"role": "ai", "text": "```\nls\n```"}, {"role": "tool", "content": "a\n[exit code: 0]"},
    ]}  # fmt: skip
    (trajectory,) = read_trajectories(io.StringIO(json.dumps(record)))
    assert trajectory.task_id == "r"
    assert [told(call) for call in calls_of(trajectory)] == [("bash", {"command": "ls"}, "a", 0)]


def test_actions_with_their_observations_and_event_records_are_read() -> None:
    pairs = [{"thought": "I look.", "action": "ls", "observation": "a"}, {"action": "submit", "observation": ""}]
    (trajectory,) = read_trajectories(io.StringIO(json.dumps({"id": "r", "task": "Fix", "trajectory": pairs})))
    assert [told(call) for call in calls_of(trajectory)] == [
        ("bash", {"command": "ls"}, "a", None), ("submit", {}, "", None)
    ]  # fmt: skip
    events: list[Message] = [
        {"id": 0, "source": "user", "action": "message", "args": {"content": "Fix it"}},
        {"id": 1, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "I look."}},
        {"id": 2, "source": "agent", "observation": "run", "cause": 1, "content": "no", "extras": {"exit_code": 2}},
        {"id": 3, "source": "agent", "action": "finish", "args": {"final_thought": "Done."}},
    ]
    (trajectory,) = read_trajectories(io.StringIO(json.dumps({"id": "r", "history": events})))
    assert trajectory.task == "Fix it"
    assert told(calls_of(trajectory)[0]) == ("run", {"command": "ls"}, "no", 2)
    assert calls_of(trajectory)[1].ends_task


def test_a_tool_that_does_several_things_is_named_by_what_it_does() -> None:
    def made(number: int, **arguments: str) -> Message:
        function = {"name": "str_replace_editor", "arguments": json.dumps({"path": "/a.py"} | arguments)}
        return agent("") | {"tool_calls": [{"id": f"c{number}", "function": function}]}

    viewed, edited = calls(
        user("Fix"), made(1, command="view"), {"role": "tool", "tool_call_ids": ["c1"], "content": "x"},
        made(2, command="str_replace", old_str="x", new_str="y"),
        {"role": "tool", "tool_call_id": "c2", "content": "The file /a.py has been edited."},
    )  # fmt: skip
    assert (viewed.tool, viewed.command, viewed.writes, viewed.output) == ("view", None, False, "x")
    assert (edited.tool, edited.input, edited.writes) == (
        "edit", {"file_path": "/a.py", "old_string": "x", "new_string": "y"}, True
    )  # fmt: skip


def test_code_that_is_run_and_answered_with_its_exit_code_is_a_call() -> None:
    (call,) = calls(
        user("Count"), agent("I count.\r\n```python\r\nprint(1 / 0)\r\n```\r\n"),
        user("exitcode: 1 (execution failed)\nCode output: \nZeroDivisionError: division by zero"),
    )  # fmt: skip
    assert told(call) == ("python", {"code": "print(1 / 0)"}, "ZeroDivisionError: division by zero", 1)


def test_a_first_word_of_the_user_that_is_more_than_the_task_is_kept() -> None:
    asked = {"task": "Fix it"}
    assert [step.text for step in read(user("Fix it"), agent("ok"), **asked).steps] == ["ok"]
    assert read(user("Fix it, but keep the name"), agent("ok"), **asked).steps[0].text == "Fix it, but keep the name"
    long = "The sign of a sum is lost where both of its parts are negative, and only then"
    assert len(read(user(f"You are in a repository.\n{long}\nBegin."), agent("ok"), task=long).steps) == 1


def test_a_command_that_was_stopped_has_failed() -> None:
    (call,) = calls(
        user("Fix it"), agent("```bash\nsleep 99\n```"),
        user("The last command <command>sleep 99</command> timed out and has been killed."),
    )  # fmt: skip
    assert call.failed
