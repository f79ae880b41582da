"""What a command line is for, and what the output of a check says."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_memory.tools.trajectory.checks import read_check
from swarm_memory.tools.trajectory.shell import parse_command


@pytest.mark.parametrize(
    ("text", "purpose", "name"),
    [
        ("cd /x && uv run pytest -q tests | tail -5", "test", "pytest"),
        ("FOO=1 npm test", "test", "npm test"),
        ("npm --prefix web run lint", "lint", "npm lint"),
        ("make -C web -j 4 test", "test", "make test"),
        ("git -C sub -c user.name=x commit -m y", "vcs", "git commit"),
        ("python3 -W error check.py", "run", "python3 check.py"),
        ("npm run build && npm run test:unit", "test", "npm test:unit"),
        ("python -m unittest discover", "test", "unittest"),
        ("timeout 60 pytest || true", "test", "pytest"),
        ("bash -lc 'pytest -x'", "test", "pytest"),
        ("npx tsc --noEmit 2>&1 | head -50", "build", "tsc"),
        ("cargo clippy", "lint", "cargo clippy"),
        ("./gradlew :app:test", "test", "gradlew"),
        ("python manage.py test", "test", "python manage.py"),
        ("python reproduce.py", "run", "python reproduce.py"),
        ("echo '5 passed'", "print", "echo"),
        ("grep -rn pytest .", "search", "grep"),
        ("cat tests/test_a.py", "read", "cat"),
        ("cat <<'EOF' > x.py\npytest\nEOF", "edit", "cat"),
        ("git commit -m 'run pytest; make'", "vcs", "git commit"),
        ('python -c "\nimport pytest\npytest\n"', "run", "python"),
        ("sed -n 1,5p x", "read", "sed"),
        ("sed -i s/a/b/ x", "edit", "sed"),
        ("conda run -n web_env pytest -q", "test", "pytest"),
        ("nice -n 19 uv run --extra dev pytest", "test", "pytest"),
        ("bin/test --verbose sympy", "test", "bin/test"),
        ("sudo -u postgres psql -c x", "other", "psql"),
        ("sleep 30", "wait", "sleep"),
        ("sleep 30; cat log", "read", "cat"),
        ("sleep 30 && deploy", "other", "deploy"),
        ("./mvnw -q clean verify", "test", "mvnw"),
        ("uv build", "build", "uv build"),
        ("cargo nextest run", "test", "cargo nextest"),
        ("cargo check", "build", "cargo check"),
        ("python -m json.tool a.json", "run", "json.tool"),
        ("timeout -k 5 60 pytest", "test", "pytest"),
        ("", "other", ""),
        ("'never closed", "other", "never"),
    ],
)
def test_a_command_is_known_by_what_it_is_for(text: str, purpose: str, name: str) -> None:
    command = parse_command(text)
    assert (command.purpose, command.name) == (purpose, name)


@given(st.text(max_size=300))
def test_no_command_line_breaks_the_parser(text: str) -> None:
    command = parse_command(text)
    assert (command.main is None) == (not command.parts)


BARE = ("{", "}", "!")

PASSED = {
    "pytest": "=== 5 passed, 2 warnings in 0.31s ===",
    "pytest -q": "5 passed in 61.20s (0:01:01)",
    "python -m unittest": "Ran 12 tests in 1.2s\n\nOK (skipped=1)",
    "npx jest": "Tests:       2 skipped, 20 passed, 22 total",
    "npx vitest run": " Test Files  4 passed (4)\n      Tests  21 passed (21)",
    "npx mocha": "  12 passing (34ms)",
    "go test ./...": "ok  \texample.org/x\t0.004s",
    "cargo test": "test result: ok. 3 passed; 0 failed; 0 ignored",
    "mvn test": "[INFO] Tests run: 4, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS",
    "dotnet test": "Passed!  - Failed:     0, Passed:     7, Skipped: 0",
    "bundle exec rspec": "7 examples, 0 failures",
    "phpunit": "OK (3 tests, 9 assertions)",
    "ruff check .": "All checks passed!",
    "ruff check . --fix": "Found 3 errors (3 fixed, 0 remaining).",
    "mypy .": "Success: no issues found in 12 source files",
    "pyright": "0 errors, 0 warnings, 0 informations",
}
FAILED = {
    "pytest": "=== 2 failed, 10 passed, 1 error in 0.12s ===",
    "pytest -x": "1 error in 0.05s",
    "python -m unittest": "Ran 2 tests in 0.1s\n\nFAILED (failures=1)",
    "npx jest": "Tests:       1 failed, 20 passed, 21 total",
    "npx vitest run": " Test Files  1 failed | 3 passed (4)\n      Tests  1 failed | 20 passed (21)",
    "npx mocha": "  12 passing (34ms)\n  1 failing",
    "go test ./...": "--- FAIL: TestA (0.00s)\nFAIL\nFAIL\texample.org/x\t0.004s",
    "cargo test": "test result: FAILED. 2 passed; 1 failed",
    "cargo build": "error[E0308]: mismatched types",
    "mvn test": "[ERROR] Tests run: 4, Failures: 1, Errors: 0\n[INFO] BUILD FAILURE",
    "npx tsc": "src/a.ts(3,1): error TS2322: Type 'x' is not assignable",
    "npx eslint .": "✖ 3 problems (1 error, 2 warnings)",
    "make": "make: *** [Makefile:3: all] Error 1",
    "phpunit": "FAILURES!\nTests: 3, Assertions: 9, Failures: 1.",
    "pyright": "2 errors, 0 warnings, 0 informations",
}


@pytest.mark.parametrize(
    ("text", "output", "failed", "passed"),
    [
        *((text, output, None, True) for text, output in PASSED.items()),
        *((f"{text} | tail -20", output, False, False) for text, output in FAILED.items()),
        ("make all", "", False, True),  # without a summary the exit code decides
        ("make all", "", True, False),
        ("make all", "cc -o x x.c", False, True),
        ("pytest | tail -1", "", False, None),  # a pipe's exit code says nothing about the check
        ("pytest", "no tests ran in 0.01s", None, None),
        ("python -m unittest", "Ran 0 tests in 0.0s\n\nOK", None, None),
        ("pytest || echo '5 passed in 0.1s'", "INTERNAL\n5 passed in 0.1s", False, None),  # the line prints it itself
        ("pytest --collect-only", "5 tests collected", False, None),
        ("make --dry-run", "cc -o x x.c", False, None),
        ("make; echo $?", "7" * 5000, False, None),  # no exit code, and no number that `int` takes
    ],
)
def test_a_summary_is_read_also_where_a_pipe_hides_the_exit_code_and_without_one_only_that_of_the_check_counts(
    text: str, output: str, failed: bool | None, passed: bool | None
) -> None:
    result = read_check(parse_command(text), output, failed)
    assert result is not None
    assert result.passed is passed


@pytest.mark.parametrize("text", ["echo '5 passed in 0.1s'", "cat log.txt", "grep -c FAILED log.txt", "git log"])
def test_output_of_a_command_that_checks_nothing_is_no_result(text: str) -> None:
    assert read_check(parse_command(text), "=== 5 passed in 0.1s ===", False) is None


@pytest.mark.parametrize(
    ("text", "parts", "outputs"),
    [
        ("cat <<'EOF' > a.txt\nrm -rf b; make\nEOF\nls", ["cat", "ls"], ["a.txt"]),
        ("cat > a.txt << EOF\nit's\nEOF", ["cat"], ["a.txt"]),
        ("cat <<-END >> a.txt\n\tx\n\tEND\ntest -f a.txt", ["cat", "test"], ["a.txt"]),
        ("cat << A > a; cat << B > b\n1\nA\n2\nB\nmake", ["cat", "cat", "make"], ["a", "b"]),
        ("python gen.py > 'out file.csv' 2> err.log", ["python"], ["out file.csv"]),
        ("make >/dev/null 2>&1 && echo ok>done.txt", ["make", "echo"], ["done.txt"]),
        ("make &> all.log", ["make"], ["all.log"]),
        ("make >| all.log", ["make"], ["all.log"]),
        ('echo "a > b" c\\>d', ["echo"], []),
        ("sort < in.txt > out.txt", ["sort"], ["out.txt"]),
        ("diff <(sort a) <(sort b)", ["diff"], []),
        ('x=$(grep -c ";" a.sh) && echo "$(cat "my file") > x" > y', ["echo"], ["y"]),
        ("(cd sub && make) > log", ["make"], ["log"]),
        ("if [ -f x ]; then make; fi", ["[", "make"], []),
        ("for f in a b; do ./run $f > $f.log; done", ["run"], ["$f.log"]),
        ("bash -c 'pytest | tail -3; echo x > y'", ["pytest", "tail", "echo"], ["y"]),
        ("> empty.txt", [":"], ["empty.txt"]),
        ("echo it's > never-closed", ["echo"], ["never-closed"]),
        ("grep '<<EOF' a.sh\nmake", ["grep", "make"], []),
        ("echo a # > b\nmake", ["echo", "make"], []),
        ("cat <<EOF > cut.txt\nthe end was cut off; make", ["cat"], ["cut.txt"]),
        ("files=(a.c 'b;c.c'); make 2> >(tee err.log) >& all.log", ["make"], ["all.log"]),
        ("echo $(ls $(dirname a | tail -1); date) > out.txt", ["echo"], ["out.txt"]),
        ("git commit -m \"$(cat <<'EOF'\nIt's done; make > x\nEOF\n)\" && make", ["git", "make"], []),
    ],
)
def test_a_command_line_falls_into_its_commands_and_the_files_they_write(
    text: str, parts: list[str], outputs: list[str]
) -> None:
    command = parse_command(text)
    assert [part.program for part in command.parts] == parts
    assert [path for part in command.parts for path in part.outputs] == outputs


quoted = st.text(st.characters(blacklist_characters="\0"), max_size=40).map(shlex.quote)


@given(st.lists(quoted, max_size=4), quoted.filter(lambda path: "/dev/" not in path and path != "''"))
def test_whatever_is_in_quotes_is_a_word_or_the_file_that_is_written(words: list[str], path: str) -> None:
    (part,) = parse_command(" ".join(["show", *words, ">", path])).parts
    assert list(part.words) == ["show", *(word for each in words for word in shlex.split(each) if word not in BARE)]
    assert part.outputs == tuple(shlex.split(path))


@given(
    st.text(max_size=200).filter(lambda text: "EOF" not in text), st.sampled_from(["EOF", "'EOF'", '"EOF"', "\\EOF"])
)
def test_no_word_of_a_here_document_is_a_command(body: str, end: str) -> None:
    command = parse_command(f"tee a.txt <<{end} && make\n{body}\nEOF\nls")
    assert [part.program for part in command.parts] == ["tee", "make", "ls"]


@pytest.mark.parametrize(
    ("text", "is_probe"),
    [
        ("which node", True), ("command -v node", True), ("type node", True), ("test -f x", True), ("node -v", True),
        ("python3 -V", True),
        ("deploy --help", True), ("deploy push -h", True), ("npm help ci", True), ("go version", True),
        ("pytest -v", False), ("psql -h db -c x", False), ("command node x", False), ("git commit -m help", False),
    ],
)  # fmt: skip
def test_a_question_for_what_there_is_and_how_it_is_called_is_a_probe(text: str, is_probe: bool) -> None:
    main = parse_command(text).main
    assert main is not None
    assert main.is_probe is is_probe
