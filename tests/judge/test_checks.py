"""Checks as evidence: who wrote them, what they examine, what lines of many commands print, and who wants them."""

from collections.abc import Callable

import pytest
from pydantic import JsonValue
from scripted_runs import Script

from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Verdict
from swarm_memory.tools.judge.judge import judge_by_evidence
from swarm_memory.tools.trajectory.checks import results_in
from swarm_memory.tools.trajectory.reading import read

FIX = "Repair the rounding of amounts in the shop."


def judged(script: Script) -> Verdict:
    return judge_by_evidence(script.say("Done.").done(), Settings())


def written(script: Script, path: str) -> Script:
    given: dict[str, JsonValue] = {"file_path": path, "content": "def test_it(): assert True"}
    return script.call("Write", given, f"File created successfully at: {path}", error=False)


OWN: dict[str, Callable[[Script], Script]] = {
    "written by an editor": lambda s: written(s, "/r/test_mine.py").shell("pytest test_mine.py", "3 passed in 0.1s"),
    "a here-document": lambda s: s.shell("cat <<'EOF' > test_mine.py\nassert 1\nEOF", "").shell(
        "pytest test_mine.py -v", "test_mine.py::test_it PASSED\n3 passed in 0.1s"
    ),
    "tee": lambda s: s.shell("tee test_mine.py <<'EOF'\nassert 1\nEOF", "").shell("python test_mine.py", "OK"),
    "echo": lambda s: s.shell("echo 'assert 1' > /r/test_mine.py && python /r/test_mine.py", "OK"),
    "a script that writes it": lambda s: s.shell(
        "python - <<'EOF'\nopen('test_mine.py', 'w').write('assert 1')\nEOF", ""
    ).shell("python -m pytest test_mine.py", "3 passed in 0.1s"),
    "the whole suite, which is the agent's": lambda s: written(s, "/r/tests/test_mine.py").shell(
        "cd /r && pytest -q", "3 passed in 0.1s"
    ),
    "a Makefile of its own": lambda s: written(written(s, "/r/test_mine.py"), "/r/Makefile").shell("make test", "ok"),
    "a script without the name of a test": lambda s: written(s, "/r/verify.py").shell("python verify.py", "ALL GOOD"),
    "a line in the command": lambda s: s.shell('python -c "import shop; assert shop.total() == 3"', ""),
}


@pytest.mark.parametrize("own", OWN)
def test_a_check_that_the_agent_wrote_itself_proves_nothing(own: str) -> None:
    script = OWN[own](Script(FIX).edit("/r/shop.py", "a", "b"))
    assert judged(script).label == "Undecided"


def flight() -> Script:
    """Return a customer's task, and the lookup that it begins with."""
    return Script("Change my flight.", source="steps").call("find_booking", {"id": "B7"}, '{"seat": "4A"}')


PROVES_NOTHING = {
    "an own check that fails at the end": written(
        Script("Make the tests pass.").edit("/r/shop.py", "a", "b"), "/r/test_mine.py"
    ).shell("pytest test_mine.py", "1 failed in 0.1s", 1),
    "what the agent broke itself and mended": Script(FIX)
    .edit("/r/shop.py", "a", "b")
    .shell("pytest", "1 failed, 3 passed in 0.1s", 1)
    .edit("/r/shop.py", "b", "c")
    .shell("pytest", "4 passed in 0.1s"),
    "a test that was rewritten until it passed": Script(FIX)
    .shell("pytest", "tests/test_shop.py F\n1 failed, 3 passed in 0.1s", 1)
    .edit("/r/tests/test_shop.py", "== 3", "== 4")
    .shell("pytest", "4 passed in 0.1s"),
    "a suite that nobody asked for": Script(FIX).edit("/r/shop.py", "a", "b").shell("pytest", "40 passed in 1.0s"),
    "a part of it": Script(FIX).edit("/r/shop.py", "a", "b").shell("pytest tests/test_a.py", "4 passed in 1.0s"),
    "a script of the agent's that runs": written(
        Script("Write shop.py so that `python shop.py orders.csv` prints the total."), "/r/shop.py"
    ).shell("python shop.py orders.csv", "42"),
    "a program of the agent's that runs": written(
        Script("Write tool.c; `./tool orders.csv` prints the total."), "/r/tool.c"
    )
    .shell("gcc tool.c -o tool", "")
    .shell("./tool orders.csv", "42"),
    "a task that was handed over with thanks": flight()
    .call("transfer_to_human_agents", {"summary": "wants another flight"}, "Transfer successful")
    .user("Thank you very much, you were great!"),
    "a yes to an offer, which is no word that it works": flight()
    .say("I can move you to the evening flight.")
    .user("Great, that works, please go ahead.")
    .call("change_booking", {"id": "B7", "flight": "LX9"}, '{"status": "changed"}'),
    "a refusal in a conversation, which may be the right end": flight()
    .say("It is a basic fare.")
    .user("Please try all the same.")
    .call("cancel_booking", {"id": "B7"}, "Error: basic fares cannot be cancelled"),
    "a result that the command line itself holds": Script("The fees are wrong; make all tests pass.")
    .edit("/r/fees.py", "a", "b")
    .shell("python3 tools/report.py; echo '12 passed in 0.1s'", "12 passed in 0.1s")
    .shell("python3 - <<'END'\nprint('3 passed')\nEND", "3 passed"),
}


@pytest.mark.parametrize("script", PROVES_NOTHING.values(), ids=PROVES_NOTHING)
def test_what_proves_neither_success_nor_failure_is_undecided(script: Script) -> None:
    assert judge_by_evidence(script.done(), Settings()).label == "Undecided"


CONVERT = "We need all members as rows.csv. Write a test for it; `sh verify.sh` runs that."
MINE = "echo 'test -s rows.csv && echo 1 passed in 0.01s' > own_test.sh"
MISSED, EMPTY = "verify: error: own_test.sh is missing", "verify: error: rows.csv is empty"


@pytest.mark.parametrize(
    "former",
    [
        Script(CONVERT).shell("sh verify.sh", MISSED, 1).shell(MINE),
        Script(CONVERT).shell(MINE).shell("sh verify.sh", EMPTY, 1),
        Script(CONVERT).shell("sh verify.sh", MISSED, 1).shell(MINE).shell("sh verify.sh", EMPTY, 1),
        Script(CONVERT).shell("make test", f"{MISSED}\nmake: *** [test] Error 2", 2).shell(MINE),
    ],
)
def test_a_script_that_fails_for_want_of_the_agents_own_test_and_passes_with_it_proves_nothing(former: Script) -> None:
    command = "make test" if "make" in str(former.done().steps[1].tool_input) else "sh verify.sh"
    former.shell("head -n 3 export.txt > rows.csv").shell(command, "1 passed in 0.01s")
    assert judged(former).label == "Undecided"


def test_a_script_that_had_failed_before_the_agent_wrote_a_test_proves_it() -> None:
    script = Script(CONVERT).shell("sh verify.sh", EMPTY, 1).shell("cp export.txt rows.csv").shell(MINE)
    assert judged(script.shell("sh verify.sh", "all rows are there")).label == "Success"


@pytest.mark.parametrize(
    "narrow",
    [
        "pytest tests/test_a.py",
        "pytest tests/test_a.py::test_x",
        "pytest -k rounding",
        "pytest tests/unit/test_a.py -x",
    ],
)
def test_a_narrower_selection_that_passes_repairs_nothing_of_the_whole_suite(narrow: str) -> None:
    script = Script("Make the tests pass.").edit("/r/shop.py", "a", "b")
    script.shell("pytest", "2 failed, 9 passed in 1.0s", 1)
    assert judged(script.shell(narrow, "1 passed in 0.1s")).label == "Failure"
    assert judged(script.shell("pytest", "11 passed in 1.0s")).label == "Success"


def test_a_whole_run_in_another_folder_repairs_nothing_either() -> None:
    script = (
        Script("Make the tests pass.").edit("/r/a.py", "a", "b").shell("cd /r/api && pytest", "2 failed in 1.0s", 1)
    )
    script.shell("cd /r/web && pytest", "5 passed in 0.5s")
    assert judged(script).label == "Failure"
    assert judged(script.shell("cd /r && pytest", "7 passed in 1.5s")).label != "Failure"


def test_a_failed_check_that_the_task_names_stays_hard_whatever_else_passes() -> None:
    script = Script("Repair the shop until `make check` goes through.")
    script.shell("pytest", "1 failed in 0.3s", 1).edit("/r/shop.py", "a", "b")
    script.shell("make check", "make: *** [check] Error 1", 2)
    script.shell("pytest", "40 passed in 0.3s").shell("npm test", "Tests  21 passed (21)")
    assert judged(script).label == "Failure"


def test_a_check_that_the_task_names_and_that_passes_proves_it() -> None:
    task = "Repair the shop so that `pytest tests/test_total.py` passes."
    script = (
        Script(task).edit("/r/shop.py", "a", "b").shell("cd /r && pytest tests/test_total.py -q", "2 passed in 0.1s")
    )
    assert judged(script).label == "Success"


def test_a_green_suite_is_no_success_where_a_change_was_asked_for_and_none_was_made() -> None:
    script = Script("Make the tests of the shop pass.").shell("pytest", "4 passed in 0.1s")
    assert judged(script).label == "Undecided"
    assert judged(Script("Run the tests of the shop.").shell("pytest", "4 passed in 0.1s")).label == "Success"


def test_failures_that_were_there_before_anything_was_changed_say_little() -> None:
    script = Script(FIX).shell("pytest", "2 failed, 30 passed in 1.0s", 1).edit("/r/shop.py", "a", "b")
    assert judged(script.shell("pytest", "2 failed, 30 passed in 1.2s", 1)).label == "Undecided"
    asked = Script("Make the tests pass.").shell("pytest", "2 failed, 30 passed in 1.0s", 1).edit("/r/a.py", "a", "b")
    assert judged(asked.shell("pytest", "2 failed, 30 passed in 1.2s", 1)).label == "Failure"


def test_a_tool_that_runs_the_tests_is_a_check_and_none_that_ran_is_neither_pass_nor_failure() -> None:
    def script(before: str, after: str) -> Script:
        tests = Script("test_total_is_rounded fails. Repair shop.py.", source="steps").call("run_tests", {}, before)
        return tests.call("write_file", {"path": "shop.py", "content": "x"}, "{}").call("run_tests", {}, after)

    passed = '{"status": "passed", "exit_code": 0, "passed": 2, "failed": 0, "tests": ["shop::test_total_is_rounded"]}'
    failed = '{"status": "failed", "exit_code": 1, "passed": 1, "failed": 1, "tests": ["shop::test_total_is_rounded"]}'
    none = '{"status": "no_tests", "exit_code": 5, "passed": 0, "failed": 0}'
    assert judged(script(failed, passed)).label == "Success"
    assert judged(script(passed, failed)).label == "Failure"
    assert judged(script(none, none)).label == "Undecided"


def test_a_test_that_the_task_names_is_asked_for_wherever_the_run_tells_of_it() -> None:
    script = Script("test_rounding_of_halves does not go through; repair it.").edit("/r/shop.py", "a", "b")
    script.shell("pytest tests/test_shop.py -v", "tests/test_shop.py::test_rounding_of_halves PASSED\n1 passed in 0.1s")
    assert judged(script).label == "Success"


@pytest.mark.parametrize(
    ("command", "output", "code", "passed"),
    [
        ("pytest -q", "no tests ran in 0.01s", 5, None),
        ("python -m pytest", "/usr/bin/python: No module named pytest", 1, None),
        (
            "python test_shop.py",
            "Traceback (most recent call last):\nModuleNotFoundError: No module named 'shop'",
            1,
            False,
        ),
        ("conda run -n env bin/test -C shop", "= tests finished: 16 passed, 4 failed, in 3.2 seconds =", 0, False),
        ("bin/test shop", "==== tests finished: 16 passed, 1 skipped, in 3.2 seconds ====", 0, True),
        ("test -f shop.py", "", 1, None),
    ],
)
def test_what_a_check_says_is_shown_from_one_that_did_not_start(
    command: str, output: str, code: int, passed: bool | None
) -> None:
    (call,) = read(Script(FIX).shell(command, output, code).done()).calls
    assert (call.check.passed if call.check else None) is passed


def test_a_command_of_the_task_that_was_there_proves_it_at_once_or_after_it_had_failed() -> None:
    task = "Bring the feed up to date with `feedsync run shoes`."
    assert judged(Script(task).shell("rm -f .lock", "").shell("feedsync run shoes", "40 rows")).label == "Success"
    mended = Script(task).shell("feedsync run shoes", "feedsync: error: no url", 1).edit("/r/feeds.toml", "a", "b")
    assert judged(mended.shell("feedsync run shoes", "40 rows")).label == "Success"


def test_what_a_command_did_is_a_change_too_and_a_line_that_only_prints_is_none() -> None:
    task = "Make the tests of the shop pass."
    assert judged(Script(task).shell("python manage.py migrate", "ok").shell("pytest", "4 passed in 0.1s")).label == (
        "Success"
    )
    looked = Script(task).shell('python -c "import shop; print(shop)"', "shop").shell("pytest", "4 passed in 0.1s")
    assert judged(looked).label == "Undecided"


@pytest.mark.parametrize(
    "frame", ["You may run any checks or tests that you want.", "Make the smallest change to non-test files."]
)
def test_a_frame_that_only_speaks_of_tests_does_not_ask_for_them(frame: str) -> None:
    script = Script(f"{frame} The amounts are rounded wrongly, see test_data.").edit("/r/shop.py", "a", "b")
    script.shell("pytest", "test_data is used by 40 tests\n40 passed in 1.0s")
    assert not any(each.named or each.wanted for each in read(script.done()).checks)


@pytest.mark.parametrize(
    ("answer", "error", "passed"),
    [
        ('{"passed": 3,\n "failed": 1}', False, False),
        ('{"failed": 1, "passed": 3}', None, False),
        ('{"passed": false}', False, False),
        ('{"status": "failed", "log": "%s"}' % ("x" * 50_000), False, False),
        ("2 failed, 9 passed in 1.0s", False, False),
        ("11 passed in 1.0s", True, False),
        ('{"passed": 3, "failed": 0}', None, True),
        ("done", False, True),
        ('{"status": "passed"}', None, None),
    ],
)
def test_a_tool_that_checks_passed_where_neither_its_answer_nor_the_host_says_otherwise(
    answer: str, error: bool | None, passed: bool | None
) -> None:
    (call,) = read(Script(FIX, source="steps").call("run_tests", {}, answer, error=error).done()).calls
    assert call.check is not None
    assert call.check.passed is passed


FIXED, ASKED = "The fees are rounded wrongly.", "The fees are rounded wrongly; make all tests pass."


@pytest.mark.parametrize(
    ("line", "passed"),
    [
        ("FAILED (failures=2)", False),
        ("12 passed", True),
        ("6 cases, 0 failed", True),
        ("5 cases, 2 failed", False),
        ("Failed!  - Failed:     1, Passed:     2, Total:     3, Duration: 12 ms", False),
        ("Found 3 errors (2 fixed, 1 remaining).", False),
        ("# pass 3\n# fail 1", False),
        ("4 of 5 tests passed", False),
        ("make: *** [Makefile:2: test] Error 1", False),
        ("BUILD SUCCESSFUL in 3s", True),
        ("Ran 0 tests in 0.0s\n\nOK", None),
        ("no tests ran in 0.01s", None),
        ("I fixed 3 errors in the file", None),
        ("src/a.py:3: 2 errors", None),
        ("make: *** No rule to make target 'quick'.  Stop.", None),
        ("100 rows were read, 0 errors in them", None),
    ],
)
def test_a_summary_of_a_runner_that_no_command_names_is_read_and_prose_is_none(line: str, passed: bool | None) -> None:
    found = [each.passed for each in results_in(f"some text\n{line}\nbye")]
    assert found[-1:] == ([] if passed is None else [passed])


WRITES = "cat > fees.py <<'END'\ndef fee(cents): return round(cents)\nEND"
BEFORE_AND_AFTER = f"python3 tests/all.py\n{WRITES}\npython3 tests/all.py; make quick\ngit status --short"
MENDED = "FAIL fees\n5 cases, 2 failed\n5 cases, 0 failed\nmake: *** No rule to make target 'quick'.  Stop.\n M fees.py"


def test_a_fix_between_two_runs_of_its_check_in_one_line_is_proven_by_them() -> None:
    verdict = judged(Script(FIXED).shell(BEFORE_AND_AFTER, MENDED))
    assert (verdict.label, verdict.confidence) == ("Success", 0.9)
    assert judged(Script(FIXED).shell(BEFORE_AND_AFTER, MENDED.replace("0 failed", "1 failed"))).label == "Undecided"
    asked = Script(ASKED).shell(BEFORE_AND_AFTER, MENDED.replace("0 failed", "1 failed"))
    assert judged(asked).label == "Failure"


def test_what_was_piped_through_a_filter_is_read_too() -> None:
    script = Script(FIXED).shell(
        "cat README.md; python3 -m unittest", "a readme\nRan 4 tests in 0.1s\nFAILED (errors=4)", 1
    )
    line = f"{WRITES}\npython3 -m unittest 2>&1 | grep -E '^(FAIL|OK)' | tail -1"
    assert judged(script.shell(line, "OK")).label == "Success"


def test_a_suite_that_failed_with_the_work_put_away_proves_it() -> None:
    line = "git stash -q && python3 -m unittest 2>&1 | tail -1; git stash pop -q; python3 -m unittest; git diff"
    for each in (line, "git stash && nosetests; git stash pop; nosetests"):  # an unknown program's output is read, too
        script = Script(FIXED).edit("/r/fees.py", "a", "b")
        assert judged(script.shell(each, "FAILED (failures=1)\nRan 4 tests in 0.1s\n\nOK\n+ fee")).label == "Success"


@pytest.mark.parametrize(
    "line",
    [
        "cat README.md; pytest -q | tail -1",
        "pytest -q | tail -1; cat README.md",
        "pytest -q; curl -s https://docs.example/setup",
        "pytest -q; git log -3",
        "pytest -q 2>&1 | tail -1; git show HEAD",
        "echo $(cat README.md); pytest || true",
        "pytest; gh pr view 3",
    ],
)
def test_a_summary_beside_a_text_of_others_counts_for_nothing(line: str) -> None:
    script = Script(ASKED).edit("/r/fees.py", "a", "b").shell(line, "Welcome!\n12 passed in 0.1s\n")
    assert judged(script).label == "Undecided"


def test_beside_a_text_of_others_the_exit_code_of_the_check_itself_counts() -> None:
    script = Script(ASKED).edit("/r/fees.py", "a", "b")
    assert judged(script.shell("cat README.md; pytest -q", "12 passed in 0.1s\nE  assert 1 == 2", 1)).label == "Failure"
    shown = Script(ASKED).edit("/r/fees.py", "a", "b").shell("pytest -q; echo rc=$?; cat README.md", "rc=1\n12 passed")
    assert judged(shown).label == "Failure"


def test_a_program_that_the_task_names_and_that_took_what_the_task_names_proves_it() -> None:
    script = Script("Put the note of 2.1.0 on the canary lane with lanectl.").shell(
        "lanectl --help", "usage: lanectl", 64
    )
    line = "lanectl put --lane canary notes/2.1.0.md; echo rc=$?; lanectl list --lane canary"
    assert judged(script.shell(line, "put\nrc=0\nusage: lanectl VERB", 64)).label == "Success"
    other = Script("Put the note of 2.1.0 on the canary lane with lanectl.")
    assert judged(other.shell(line, "lanectl: no lease\nrc=5\nusage: lanectl VERB", 64)).label == "Undecided"
