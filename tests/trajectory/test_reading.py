"""A trajectory is read once: what failed and what ended it, what was repeated, what was written, what the user said."""

import json

import pytest
from patience import grows_by
from pydantic import JsonValue
from scripted_runs import Script

from swarm_memory.tools.trajectory.failures import error_line, signature_of_call
from swarm_memory.tools.trajectory.reading import Reading, read

REFUSED = "vault: error: 401 Unauthorized: session has expired"


def reading_of(script: Script) -> Reading:
    return read(script.done())


def written(script: Script) -> dict[str, bool]:
    """Return the files that were written, and whether each is the agent's own."""
    return {file.path: file.is_own for file in reading_of(script).files if file.writes}


def test_what_json_holds_under_the_name_of_a_person_or_an_order_is_of_this_task_alone() -> None:
    given: dict[str, JsonValue] = {
        "user": {"first_name": "Mia", "user_ids": ["mia_li_3668", "raj_7"]},
        "note": "Mia Li",
    }
    script = Script("x").call("book", given, "ok")
    script.call("find", {"name": "cheap flights", "query": "name"}, '{"ids": ["x",\n   "ZFA04Y"], "status": "OPEN-1"}')
    script.call("read", {"file_path": "a"}, 'It says "name": "Left-Pad" there.')
    assert reading_of(script).particulars == ("Mia", "mia_li_3668", "raj_7", "ZFA04Y")


# --- what failed

FAULT = {"content": [{"type": "text", "text": "Error: customer 12 has no credit line"}], "isError": True}
PRINTED = "CallToolResult(meta=None, content=[TextContent(type='text', text='{}')], isError={})"


@pytest.mark.parametrize("reported", [None, False])
@pytest.mark.parametrize("output", [json.dumps(FAULT), PRINTED.format("no customer of that name", True)])
def test_a_result_that_says_of_itself_that_it_is_an_error_is_one(output: str, reported: bool | None) -> None:
    (call,) = reading_of(Script("x").call("mcp__shop__order", {"id": 12}, output, error=reported)).calls
    assert call.failed
    assert call.error in ("Error: customer 12 has no credit line", "no customer of that name")
    assert call.signature == signature_of_call("mcp__shop__order", {"id": 12}, output)


@pytest.mark.parametrize("output", [json.dumps(FAULT | {"isError": False}), PRINTED.format("Error log: none", False)])
def test_a_result_that_says_that_it_is_none_is_none_and_one_that_is_read_is_text(output: str) -> None:
    assert not reading_of(Script("x").call("mcp__shop__order", {"id": 12}, output)).calls[0].failed
    assert not reading_of(Script("x").shell("cat result.json", json.dumps(FAULT))).calls[0].failed


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("which node", ""),
        ("command -v node", ""),
        ("deploy --help", "error: unknown option\nusage: deploy [--force]"),
        ("go version", "bash: go: command not found"),
        ("test -f setup.cfg", ""),
    ],
)
def test_a_probe_has_an_answer_and_does_not_fail(command: str, output: str) -> None:
    (call,) = reading_of(Script("x").shell(command, output, 127)).calls
    assert not call.failed
    assert call.signature is None
    assert not call.writes


# --- errors


def test_each_failed_call_is_of_one_error_with_what_ended_it() -> None:
    script = Script("read the secret").shell("vault read app/db", REFUSED, 1).shell("vault read app/db", REFUSED, 1)
    script.shell("vault login", "ok").shell("vault read app/db", "x=1")
    (error,) = reading_of(script).errors
    assert [call.position for call in error.calls] == [1, 3]
    assert error.repair is not None
    assert [call.command.text for call in error.repair.actions if call.command] == ["vault login"]
    assert error.repair


def test_what_went_through_much_later_is_of_something_else() -> None:
    script = Script("read the secret").shell("vault read app/db", REFUSED, 1)
    for number in range(50):
        script.shell(f"cat notes_{number}.txt", "x")
    (error,) = reading_of(script.shell("vault read app/db", "x=1")).errors
    assert error.repair is None


def test_the_same_complaint_about_two_files_is_two_errors_and_with_other_durations_it_is_one() -> None:
    script = Script("tidy it").shell("flake8 --isolated src/a.py", "src/a.py:3:1: F821 undefined name 'x'", 1)
    script.shell("flake8 --isolated src/b.py", "src/b.py:8:1: F821 undefined name 'y'", 1)
    script.shell("sed -i s/x/z/ src/a.py", "").shell("flake8 --isolated src/a.py", "")
    assert [error.repair is None for error in reading_of(script).errors] == [False, True]
    script = Script("ship it").shell("ship", "error: no answer of the yard 'a' within 0.11s", 1)
    script.shell("ship", "error: no answer of the yard 'b' within 0.15s", 1).shell("ship", "Error: no hull 7 here", 1)
    assert [len(error.calls) for error in reading_of(script).errors] == [2, 1]


def test_a_silent_success_ends_an_error_and_a_search_that_shows_nothing_does_not() -> None:
    script = Script("x").shell("mkdir a/b", "mkdir: cannot create directory 'a/b': No such file or directory", 1)
    assert reading_of(script.shell("mkdir -p a/b", "")).errors[0].repair
    script = Script("x").shell("cat a/b", "cat: a/b: No such file or directory", 1)
    assert reading_of(script.shell("cat a/b 2>/dev/null", "")).errors[0].repair is None


# --- files

WRITERS = (
    "cat <<'EOF' > tests/new.py\nassert True\nEOF",
    "cat > tests/new.py << EOF\nassert True\nEOF",
    "cd tests && echo 'assert True' >> new.py",
    "printf 'x' >tests/new.py",
    "echo x | tee tests/new.py",
    "python make.py > tests/new.py 2>&1",
    "cp a.py tests/new.py",
    "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: tests/new.py\n+x\n*** End Patch\nEOF",
)


@pytest.mark.parametrize("command", WRITERS)
def test_a_file_that_a_command_writes_first_is_the_agents_own(command: str) -> None:
    assert written(Script("x").shell(command, "")) == {"new.py" if "cd " in command else "tests/new.py": True}


def test_a_file_that_was_read_before_was_there_and_one_that_was_only_listed_may_be_the_agents_own() -> None:
    script = Script("x").shell("ls tests", "new.py\nold.py")
    assert written(script.shell("echo y > tests/new.py", "")) == {"tests/new.py": True}
    script = Script("x").shell("cat tests/new.py", "x")
    assert written(script.shell("echo y > tests/new.py", "")) == {"tests/new.py": False}


@pytest.mark.parametrize("command", ["sed -i 's/a/b/' tests/new.py", "perl -pi -e s/a/b/ tests/new.py"])
def test_what_is_changed_in_place_was_there(command: str) -> None:
    assert written(Script("x").shell(command, "")) == {"tests/new.py": False}


@pytest.mark.parametrize("line", ["edit 8:12\ny\nend_of_edit", "insert 3\nmake test\nend_of_edit"])
def test_an_edit_by_lines_of_the_file_that_is_open_is_a_change(line: str) -> None:
    reading = reading_of(Script("x").shell("open a.py", "[File: /r/a.py (4 lines)]").shell(line, "edited"))
    assert [call.position for call in reading.changes] == [3]


def test_a_file_that_a_script_writes_is_the_agents_own_unless_the_script_reads_it() -> None:
    made = "python - <<'EOF'\nfrom pathlib import Path\nPath('tests/new.py').write_text(open('a.txt', 'r').read())\nEOF"
    assert written(Script("x").shell(made, "")) == {"tests/new.py": True, "a.txt": False}
    changed = "python - <<'EOF'\np = Path('new.py'); p.write_text(p.read_text() + 'x')\nEOF"
    assert written(Script("x").shell(changed, "")) == {"new.py": False}


def test_a_path_is_the_file_that_ends_with_it_and_thousands_of_paths_take_no_squared_time() -> None:
    script = Script("x").shell("rm /r/out/a/f.txt ./a/f.txt f.txt b/f.txt", "")
    assert [file.path for file in reading_of(script).files] == ["/r/out/a/f.txt", "b/f.txt"]
    few, many = ("rm " + " ".join(f"o/{each}.c" for each in range(count)) for count in (200, 2000))
    assert grows_by(lambda line: reading_of(Script("x").shell(line, "")).files, few, many, at_most=20) <= 20


def test_edit_tools_tell_what_they_made_and_what_they_changed() -> None:
    script = Script("x").call(
        "Write", {"file_path": "/r/a.py", "content": "x"}, "File created successfully", error=False
    )
    script.edit("/r/c.py", "a", "b").call("Edit", {"file_path": "/r/d.py"}, "Error: no such file", error=True)
    assert written(script) == {"/r/a.py": True, "/r/c.py": False}


def test_a_tool_for_many_acts_does_what_it_is_shown_to() -> None:
    script = Script("x").call("str_replace_editor", {"command": "view", "path": "/r/a.py"}, "1: error = x")
    script.call("str_replace_editor", {"command": "create", "path": "/r/b.py", "file_text": "x"}, "File created")
    script.call("str_replace_editor", {"command": "str_replace", "path": "/r/a.py", "old_str": "x"}, "edited")
    script.call("replace", {"file_path": "/r/c.py", "old_string": "", "new_string": "x"}, "Created new file")
    assert [call.writes for call in reading_of(script).calls] == [False, True, True, True]
    assert written(script) == {"/r/a.py": False, "/r/b.py": True, "/r/c.py": True}


def test_an_edit_of_another_file_does_not_answer_one_that_failed() -> None:
    script = Script("x").call("Edit", {"file_path": "/r/a.py", "old_string": "x"}, "String not found", error=True)
    assert reading_of(script.edit("/r/b.py", "x", "y")).errors[0].repair is None
    assert reading_of(script.edit("/r/src/a.py", "x", "y")).errors[0].repair


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("a.py:3:1: F821 undefined name 'x'\nAttempt to fix it? yes", "F821 undefined name 'x'"),
        ("# 1 block failed to match!\n    with raises(E) as error:\n    x(", "1 block failed to match!"),
        ('{"status": "failed", "tests": [], "stdout": "E   AssertionError: assert 3\\n1 failed"}',
         "AssertionError: assert 3"),
        ('{"code": 7, "error": "no seat left"}', "no seat left"),
        ('{"code": 7, "tests": []}', ""),
    ],
)  # fmt: skip
def test_the_key_line_is_what_a_program_says_and_no_line_of_code_or_frame(output: str, line: str) -> None:
    assert error_line(output) == line


@pytest.mark.parametrize("command", ["python -c 'print(1)' > ':'", "echo x > '^_`{'", "echo a > /dev/null"])
def test_what_is_no_path_is_no_file(command: str) -> None:
    assert written(Script("x").shell(command, "")) == {}


# --- what was said


def test_what_the_user_said_after_the_work_began_is_shown_with_what_it_says_of_it() -> None:
    script = Script("ship it").shell("ship", "done").user("No, that is wrong, use the other port.")
    script.say("Shall I push?").user("no, not yet").shell("ship -p 2", "done").user("thanks, that works")
    said = reading_of(script).said
    assert [(each.about, each.is_answer) for each in said] == [
        ("correction", False), ("correction", True), ("approval", False),
    ]  # fmt: skip
