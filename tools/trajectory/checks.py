"""What the output of a test, build or lint run says.

Only the summary lines of known runners count. A line that merely contains "error" or "passed" says nothing.
"""

import re
from dataclasses import dataclass
from typing import cast

from swarm_memory.tools.text.json_values import json_in
from swarm_memory.tools.trajectory.shell import Command, Purpose

_TAIL_CHARS, _MAX_LINE_CHARS, _MAX_LINES = 12_000, 300, 80
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one run of a check."""

    name: str
    """What ran: `pytest`, `npm test`."""
    purpose: Purpose
    passed: bool | None
    """None: the output does not tell."""
    summary: str = ""
    """The line that it was read from."""
    counted: bool = False
    """Whether a summary line said so, and not the exit code alone."""


_READERS = tuple((re.compile(pattern), result) for pattern, result in (
    # pytest: "=== 2 failed, 10 passed, 1 error in 0.12s ===", also without the rules (-q)
    (r"^[= ]*(?=.*\b\d+ (?:failed|errors?)\b)(?:\d+ [a-z]+(?:, )?)+ in [\d.]+ ?s.*$", False),
    (r"^[= ]*(?P<good>\d+) passed(?:, \d+ [a-z]+)* in [\d.]+ ?s.*$", None),
    (r"^[= ]*no tests (?:ran|collected).* in [\d.]+ ?s.*$", None),
    # sympy's own
    (r"^[= ]*tests finished: (?P<good>\d+) passed(?=(?:.*?\b(?P<bad>\d+) failed)?)"
     r"(?=(?:.*?\b(?P<worse>\d+) exceptions?)?).*$", None),
    # unittest
    (r"^FAILED \((?:failures|errors|unexpected successes)=\d+.*\)$", False),
    (r"^Ran (?P<good>\d+) tests? in .*$", None),
    # jest, vitest
    (r"^\s{0,20}Tests?:?\s+(?:(?P<bad>\d+) failed[,|\s]*)?(?:\d+ (?:skipped|todo)[,|\s]*)*"
     r"(?:(?P<good>\d+) passed)?[^\n]*(?:total|\(\d+\)).*$", None),
    (r"^\s{0,20}Test (?:Suites|Files):?\s+(?P<bad>[1-9]\d*) failed.*$", None),
    # mocha, rspec, phpunit
    (r"^\s{0,20}(?P<bad>[1-9]\d*) failing$", None),
    (r"^\s{0,20}(?P<good>\d+) passing \(.*\)$", None),
    (r"^(?P<good>\d+) examples?, (?P<bad>\d+) failures?.*$", None),
    (r"^(?:FAILURES|ERRORS)!$", False),
    (r"^OK(?:,)? \((?P<good>\d+) tests?, .*\)$", None),
    # go, cargo
    (r"^(?:--- FAIL: .*|FAIL(?:\s.*)?)$", False),
    (r"^ok\s+\S+\s+(?:[\d.]+s|\(cached\)).*$", True),
    (r"^test result: FAILED\..*$", False),
    (r"^test result: ok\. (?P<good>\d+) passed; (?P<bad>\d+) failed.*$", None),
    (r"^error(?:\[E\d+\])?: .*$", False),
    # maven, gradle, dotnet
    (r"^(?:\[\w+\]\s+)?Tests run: (?P<good>\d+), Failures: (?P<bad>\d+), Errors: (?P<worse>\d+).*$", None),
    (r"^(?:\[\w+\]\s+)?BUILD FAIL(?:URE|ED).*$", False),
    (r"^(?:\[\w+\]\s+)?BUILD SUCCESS(?:FUL)?.*$", True),
    (r"^\s{0,20}(?:Failed|Passed)!\s+- Failed:\s+(?P<bad>\d+), Passed:\s+(?P<good>\d+).*$", None),
    # tsc, eslint, ruff, mypy, pyright, make, npm
    (r".*\berror TS\d+: .*$", False),
    (r"^Found \d+ errors? \(\d+ fixed, (?P<bad>\d+) remaining\).*$", None),
    (r"^Found (?P<bad>\d+) errors?\b(?! \(\d+ fixed).*$", None),
    (r"^✖ \d+ problems? \((?P<bad>\d+) errors?, .*\)$", None),
    (r"^All checks passed!$", True),
    (r"^Success: no issues found.*$", True),
    (r"^(?P<bad>\d+) errors?, \d+ warnings?.*$", None),
    (r"^(?:make|gmake|ninja)(?:\[\d+\])?: (?:\*\*\*|build stopped).*$", False),
    (r"^npm ERR! .*$|^npm error .*$", False),
))  # fmt: skip
"""Summary lines, and what they say; None: what their counts say, of `bad` and `worse` failures and `good` passes."""

_TELLING = re.compile(
    r"(?i)passed|fail|passing|error|\bok\b|\btests? ran|tests? (?:run|in)|^ran \d|examples|build|success|problems"
    r"|no issues|\*\*\*|checks"
)
_CHECK_TOOL = re.compile(
    r"(?i)^(?:(?:run|execute)_?)?(?:(?P<test>(?:unit_?|all_?)?tests?|test_?suite|pytest)|(?P<build>build|compile)"
    r"|(?P<lint>lint(?:er)?|type_?check))(?:_(?:project|code|suite|all))?$"
)
"""Tools that are named as a check is."""

_GOOD, _BAD = frozenset({"passed", "pass", "ok", "success"}), frozenset({"failed", "fail", "failure", "error"})
_FIELDS = ("status", "success", "passed", "failed", "failures", "errors")
_MAX_JSON_CHARS = 200_000
_LOOKS_ONLY = frozenset(
    {"--help", "--version", "--collect-only", "--co", "--dry-run", "--just-print", "--list", "--listTests",
     "--fixtures", "--markers", "--showConfig"}
)  # fmt: skip
"""Options with which a check says something of itself and checks nothing."""

_NO_RUN = re.compile(
    r"(?im)^[^\n]{0,80}: (?:command )?not found\s*$|(?<!Error): No module named '?[\w.-]+'?\s*$"
    r"|' is not recognized as an internal|missing script|can't open file"
)
"""The check could not be started: that says nothing of what it was to look at."""


def read_check(command: Command, output: str, failed: bool | None) -> CheckResult | None:
    """Return what a run of `command` showed; None when the command runs no check.

    `failed` is what the exit code or the host said of the whole line: None where nothing was said. A summary line that
    reports a failure outweighs an exit code of 0 (a pipe hides it); an exit code other than 0 outweighs a summary of
    success where the code is the check's own.
    """
    check = command.check
    if check is None:
        return None
    if _LOOKS_ONLY.intersection(check.words):
        return CheckResult(command.name, check.purpose, None)
    text = _ANSI.sub("", output[-_TAIL_CHARS:])
    passed, summary = _read_summary(text)
    if passed and any(summary in word for part in command.parts for word in part.words):
        passed, summary = None, ""  # it was printed by the command line itself
    own = command.exit_code_is_of(check)
    if passed is None and failed:
        passed = False if own and not summary and not _NO_RUN.search(text) else None
    elif passed is None and failed is False and own and not summary:
        passed = True
    elif passed and failed and own:
        passed = False
    return CheckResult(command.name, check.purpose, passed, summary, counted=bool(summary) and passed is not None)


def read_tool_check(tool: str, output: str, failed: bool | None) -> CheckResult | None:
    """Return what a tool that runs a check showed, such as `run_tests`; None where it is another tool.

    Its answer is read as JSON with a status or counts, else as the output of a runner; else `failed` counts, which the
    host says of the call.
    """
    found = _CHECK_TOOL.match(tool.rpartition("__")[2])
    if found is None:
        return None
    purpose: Purpose = "test" if found["test"] else "build" if found["build"] else "lint"
    passed, summary = _read_answer(output) or _read_summary(_ANSI.sub("", output[-_TAIL_CHARS:]))
    if passed is None and not summary and failed is not None:
        passed = not failed
    return CheckResult(tool, purpose, passed, summary, counted=bool(summary) and passed is not None)


def _read_answer(output: str) -> tuple[bool | None, str] | None:
    """Return what a JSON answer says of a check and the words that say so; None where it is none, or says nothing."""
    fields = json_in(output) if output.lstrip()[:1] == "{" and len(output) <= _MAX_JSON_CHARS else None
    if not isinstance(fields, dict):
        return None
    fields = cast("dict[str, object]", fields)
    told = {name: value for name in _FIELDS if isinstance(value := fields.get(name), bool | int | str)}
    if not told:
        return None
    summary = ", ".join(f"{name} {value}" for name, value in told.items())
    status = str(told.get("status", "")).lower()
    is_bad = any(told.get(name) not in (None, 0, False, "") for name in ("failed", "failures", "errors"))
    if is_bad or told.get("success") is False or told.get("passed") is False or status in _BAD:
        return False, summary
    is_good = told.get("success") is True or status in _GOOD or told.get("passed") not in (None, 0, False, "")
    return (True if is_good else None), summary


def _read_summary(text: str) -> tuple[bool | None, str]:
    """Return the verdict of the summary lines (any failure makes it False) and the line that decided."""
    passed: bool | None = None
    shown = ""
    for line in _telling_lines(text):
        for pattern, said in _READERS:
            match = pattern.match(line)
            if match is None:
                continue
            result, found = _by_counts(match, said), line.strip(" =")
            if result is False:
                return False, found
            if result and not passed:
                passed, shown = True, found
            shown = shown or found
    return passed, shown


def _by_counts(match: re.Match[str], said: bool | None) -> bool | None:
    """Return what a summary line says: False when anything failed, True when something passed; None: nothing ran."""
    counts = {name: int(count or 0) for name, count in match.groupdict().items()}
    if counts.get("bad") or counts.get("worse"):
        return False
    return True if counts and counts.get("good") != 0 else said


def _telling_lines(text: str) -> list[str]:
    """Only lines that hold a word of a summary are tried, the last ones: outputs are long, and this runs often."""
    lines = (line for line in text.splitlines() if len(line) <= _MAX_LINE_CHARS)
    return [line for line in lines if _TELLING.search(line)][-_MAX_LINES:]
