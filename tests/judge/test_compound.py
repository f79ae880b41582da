"""Results in the output of compound command lines: read for what they say, and never from what others wrote."""

import pytest
from scripted_runs import Script

from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Verdict
from swarm_memory.tools.judge.judge import judge_by_evidence
from swarm_memory.tools.trajectory.checks import results_in

FIX, ASKED = "The fees are rounded wrongly.", "The fees are rounded wrongly; make all tests pass."


def judged(script: Script) -> Verdict:
    return judge_by_evidence(script.say("Done.").done(), Settings())


@pytest.mark.parametrize(
    ("line", "passed"),
    [
        ("Ran 4 tests in 0.002s\n\nOK", True),
        ("FAILED (failures=2)", False),
        ("12 passed", True),
        ("=== 2 failed, 10 passed, 1 error in 0.12s ===", False),
        ("6 cases, 0 failed", True),
        ("5 cases, 2 failed", False),
        ("0 errors, 0 warnings, 0 informations", True),
        ("test result: ok. 3 passed; 0 failed; 0 ignored; finished in 0.00s", True),
        ("Tests:       1 failed, 12 passed, 13 total", False),
        ("Tests  21 passed (21)", True),
        ("[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 0", False),
        ("Failed!  - Failed:     1, Passed:     2, Total:     3, Duration: 12 ms", False),
        ("Found 3 errors (2 fixed, 1 remaining).", False),
        ("Found 3 errors (3 fixed, 0 remaining).", True),
        ("# pass 3\n# fail 1", False),
        ("4 of 5 tests passed", False),
        ("make: *** [Makefile:2: test] Error 1", False),
        ("BUILD SUCCESSFUL in 3s", True),
        ("All checks passed!", True),
    ],
)
def test_a_summary_is_read_whatever_runner_wrote_it(line: str, passed: bool) -> None:
    assert [each.passed for each in results_in(f"some text\n{line}\nbye")][-1] is passed


@pytest.mark.parametrize(
    "line",
    [
        "Ran 0 tests in 0.0s\n\nOK",
        "no tests ran in 0.01s",
        "I fixed 3 errors in the file",
        "src/a.py:3: 2 errors",
        "make: *** No rule to make target 'quick'.  Stop.",
        "100 rows were read, 0 errors in them",
    ],
)
def test_prose_and_runs_of_nothing_are_no_result(line: str) -> None:
    assert [*results_in(line)] == []


WRITES = "cat > fees.py <<'END'\ndef fee(cents): return round(cents)\nEND"
BEFORE_AND_AFTER = f"python3 tests/all.py\n{WRITES}\npython3 tests/all.py; make quick\ngit status --short"
MENDED = "FAIL fees\n5 cases, 2 failed\n5 cases, 0 failed\nmake: *** No rule to make target 'quick'.  Stop.\n M fees.py"


def test_a_fix_between_two_runs_of_its_check_in_one_line_is_proven_by_them() -> None:
    verdict = judged(Script(FIX).shell(BEFORE_AND_AFTER, MENDED))
    assert (verdict.label, verdict.confidence) == ("Success", 0.9)
    assert judged(Script(FIX).shell(BEFORE_AND_AFTER, MENDED.replace("0 failed", "1 failed"))).label == "Undecided"
    asked = Script(ASKED).shell(BEFORE_AND_AFTER, MENDED.replace("0 failed", "1 failed"))
    assert judged(asked).label == "Failure"


def test_what_was_piped_through_a_filter_is_read_too() -> None:
    script = Script(FIX).shell(
        "cat README.md; python3 -m unittest", "a readme\nRan 4 tests in 0.1s\nFAILED (errors=4)", 1
    )
    line = f"{WRITES}\npython3 -m unittest 2>&1 | grep -E '^(FAIL|OK)' | tail -1"
    assert judged(script.shell(line, "OK")).label == "Success"


def test_a_suite_that_failed_with_the_work_put_away_proves_it() -> None:
    line = "git stash -q && python3 -m unittest 2>&1 | tail -1; git stash pop -q; python3 -m unittest; git diff"
    script = Script(FIX).edit("/r/fees.py", "a", "b")
    assert judged(script.shell(line, "FAILED (failures=1)\nRan 4 tests in 0.1s\n\nOK\n+ fee")).label == "Success"


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


def test_a_result_that_the_command_line_itself_holds_is_none() -> None:
    script = Script(ASKED).edit("/r/fees.py", "a", "b")
    script.shell("python3 tools/report.py; echo '12 passed in 0.1s'", "12 passed in 0.1s")
    script.shell("python3 - <<'END'\nprint('3 passed')\nEND", "3 passed")
    assert judged(script).label == "Undecided"


def test_of_several_attempts_none_is_judged_by_a_failure_of_an_earlier_one() -> None:
    script = Script(ASKED)
    for number in range(3):
        script.edit("/r/fees.py", "a", f"b{number}").shell("pytest", "2 failed, 9 passed in 1.0s", 1)
        script.say("The harness starts a new attempt.")
    assert judged(script.edit("/r/fees.py", "a", "c").shell("pytest", "11 passed in 1.0s")).label == "Success"
