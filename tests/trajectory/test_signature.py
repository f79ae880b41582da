"""When two failures are the same error: what is specific to a run may differ, what failed and how may not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_runs import Script

from swarm_memory.tools.trajectory.calls import calls_of
from swarm_memory.tools.trajectory.failures import Signature, signature_of_call

TRACEBACK = "Exit code 1\nTraceback (most recent call last):\n  File {path!r}, line {line}, in <module>\n"


def failure(command: str, output: str) -> Signature | None:
    return signature_of_call("Bash", {"command": command}, output)


numbers = st.integers(0, 10**6).map(str)
names = st.text("abcdefghijklmnopqrstuvwxyz", min_size=2, max_size=12)
folders = st.lists(names, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
hashes = st.text("0123456789abcdef", min_size=12, max_size=40)
times = st.datetimes().map(lambda at: at.isoformat()) | st.datetimes().map(lambda at: at.strftime("%H:%M:%S"))
durations = st.tuples(st.integers(0, 999), st.sampled_from(["ms", "s", " s", " seconds", " minutes"])).map(
    lambda each: f"{each[0]}{each[1]}"
)
addresses = st.tuples(*[st.integers(0, 255)] * 4, st.integers(1, 65535)).map(
    lambda each: f"{each[0]}.{each[1]}.{each[2]}.{each[3]}:{each[4]}"
)
VARIED = {"number": numbers, "folder": folders, "hash": hashes, "time": times, "duration": durations, "at": addresses}
LINES = (
    "error: worker {hash} did not start within {duration}",
    "[{time}] ERROR could not reach the broker at {at}, attempt {number}",
    "fatal: object {hash} in {folder}/objects is corrupt",
    "error: {number} rows of the ledger have no owner (took {duration})",
    "{folder}/build.cfg:{number}:{number}: error: missing separator in a rule",
    "sqlite3.OperationalError: no such table: orders (pid {number}, {folder}/shop.db)",
    "error: {number} rows of {folder}/timeout were left",
    "Error: upload of {folder}/a.bin to https://files.example/{hash} was refused by the quota",
)


@given(st.sampled_from(LINES), st.data())
def test_what_is_of_one_run_makes_no_difference(line: str, data: st.DataObject) -> None:
    shown = [line.format(**{name: data.draw(distilled) for name, distilled in VARIED.items()}) for _ in range(2)]
    first, second = (failure("ship deploy", f"Exit code {number}\n{each}") for number, each in enumerate(shown, 1))
    assert first is not None
    assert second is not None
    assert first == second
    assert first.digest == second.digest


@given(st.sampled_from(LINES), st.sampled_from(LINES), st.data())
def test_another_error_or_another_program_is_another_failure(one: str, other: str, data: st.DataObject) -> None:
    shown = {name: data.draw(distilled) for name, distilled in VARIED.items()}
    first = failure("ship deploy", one.format(**shown))
    assert first is not None
    assert (failure("ship deploy", other.format(**shown)) == first) is (one == other)
    elsewhere = failure("cargo run", one.format(**shown))
    assert elsewhere is not None
    assert elsewhere.digest != first.digest


@pytest.mark.parametrize(
    "output",
    [
        "",
        "Exit code 1",
        "Exit code 127\n\n",
        "Exit code 1\n=== 2 failed, 10 passed in 0.12s ===",
        "Exit code 1\nTests:       1 failed, 3 passed, 4 total",
        "Exit code 1\nFAILED (failures=1, errors=2)",
        "Exit code 1\nE   AssertionError: assert 3 == 4",
        "Exit code 2\nmake: *** [Makefile:2: test] Error 1",
        "Exit code 1\nnpm ERR! Test failed.  See above for more details.",
        "Exit code 101\nerror: could not compile `ledger` (lib) due to 2 previous errors",
        "Exit code 1\nerror Command failed with exit code 1.",
        "Exit code 1\nFound 3 errors in 2 files (checked 10 source files)",
        "Exit code 1\nSyntaxError: invalid syntax",
    ],
)
def test_what_says_nothing_of_the_error_is_no_signature(output: str) -> None:
    assert failure("npm test", output) is None


def test_a_missing_file_is_known_by_its_name_whatever_its_folder() -> None:
    first, moved, other = (
        failure("pytest -q", f"E   FileNotFoundError: [Errno 2] No such file or directory: '{path}'")
        for path in ("/home/ann/shop/config/test.toml", "<path>/test.toml", "/home/ann/shop/config/live.toml")
    )
    assert first == moved != other


def test_a_missing_module_is_the_same_however_it_is_shown_and_codes_of_errors_stay_apart() -> None:
    shown = TRACEBACK.format(path="/srv/x/app.py", line=3) + "ModuleNotFoundError: No module named 'yaml'"
    assert failure("python3.11 app.py", shown) == failure("cd /tmp && python app.py", "python: No module named yaml")
    assert failure("python app.py", shown) != failure("python app.py", shown.replace("yaml", "toml"))
    first, other = (failure("npm run build", f"a.ts(12,3): error TS{code}: Cannot find this") for code in (2304, 2307))
    assert first != other
    first, other = (failure("call api", f"error: HTTP 1.1 status {code} from the ledger") for code in (404, 500))
    assert first != other


def test_redaction_makes_no_difference() -> None:
    first, other = (
        failure("ship push", f"fatal: the registry refused {secret} of {mail}")
        for secret, mail in (("ghp_aB3dE5fG7hJ9kL1m", "ann@example.org"), ("[secret:github-token]", "[email]"))
    )
    assert first == other is not None


@given(st.text(max_size=300), st.text(max_size=60))
def test_no_text_is_too_odd(output: str, command: str) -> None:
    found = failure(command, output)
    assert found is None or (found.program and len(found.message) <= 160 and not any(map(str.isdecimal, found.message)))


@pytest.mark.parametrize("output", [line.format(**dict.fromkeys(VARIED, "7")) for line in LINES])
def test_a_hook_and_a_transcript_read_the_same_of_a_call(output: str) -> None:
    (call,) = calls_of(Script("ship it").shell("cd /srv && ship deploy --now", output, 1).done())
    assert call.signature == failure("cd /srv && ship deploy --now", f"Exit code 1\n{output}")
    assert call.signature is not None
    (good,) = calls_of(Script("ship it").shell("ship deploy", "done").done())
    assert good.signature is None


def test_a_tool_with_arguments_is_its_own_program() -> None:
    shown = "<tool_use_error>Error: customer 12 has no credit line</tool_use_error>"
    found = signature_of_call("mcp__shop__order", {"id": 12}, shown)
    assert found == Signature("mcp__shop__order", "error", "error: customer # has no credit line")
