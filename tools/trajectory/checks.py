"""What a command's output says about a check: summary lines, wherever they appear in it, in order."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, cast

from swarm_memory.tools.trajectory.shell import CHECKS, Command, Purpose

_MAX_CHARS, _MAX_LINE_CHARS = 60_000, 300
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class SummaryResult(NamedTuple):
    """The result in one summary line."""

    passed: bool
    line: str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one run of a check."""

    name: str
    """What ran: `pytest`, `npm test`."""
    purpose: Purpose
    passed: bool | None
    """Whether it passed, by the last result and the exit code; None: neither tells."""
    summary: str = ""
    """The summary line that the result was read from."""
    was_mended: bool = False
    """Whether the same output also shows a failure before the command line's change, or with the changes stashed."""


_GOOD = "passed|passing|pass|ok|succeeded|successful"
_BAD = "failed|failing|failures?|fail|errors?|errored|exceptions?|broken|problems?|remaining"
_TOTAL = "(?:unit )?tests?(?: (?:cases?|files?|suites?|run))?|cases?|examples?|specs?|checks?|suites?|scenarios?|total"
_OTHER = (
    "assertions?|files?|warnings?|skipped|ignored|deselected|x(?:failed|passed)|todo|pending|measured|filtered out"
    "|re-?runs?|informations?|notes?|fixed|cancelled|expected failures?|(?:source|in) files?|duration_ms|snapshots?"
)
_PAIR = re.compile(
    rf"(?i)\b(?P<n>\d+) (?:(?:{_TOTAL}) )?(?:(?P<good>{_GOOD})|(?P<bad>{_BAD})|(?P<total>{_TOTAL})|(?:{_OTHER}))\b"
    rf"|\b(?:(?P<good_>{_GOOD})|(?P<bad_>{_BAD})|(?P<total_>{_TOTAL})|(?:{_OTHER}))"
    r"\s*(?:[:=]\s*|(?<=[#\u2139] \w{4}) )"
    r"(?P<n_>\d+)(?! ?[A-Za-z])"
)
"""A count and what is counted, in either order; TAP writes `# pass 3`."""

_AROUND = re.compile(
    r"(?i)[\W\u2139]*(?:\[\w+\]\W*)?(?:(?:found|ran|finished|tests? results?|tests finished|results?|summary|total"
    r"|tests?|ok|test files|test suites|failed|failures|passed|success|done|all|of|and|with|no)\b\W*){0,4}"
    r"(?:\b(?:in|and|of|finished|ms|s|secs?|seconds?|minutes?|h|m|generated|duration|tests?|ran|(?<!\d\.)\d+(?:\.\d+)*(?:ms|s|m|min)?)\b\W*)*"
    r"(?:\(.*\)\W*)?"
)
"""Text that may surround the counts in a summary line."""

_WORDED = tuple((re.compile(pattern), passed) for pattern, passed in (
    (r"(?:OK|PASS(?:ED)?)(?: \(.*\))?", True),
    (r"(?:--- )?FAIL(?:ED|URES)?\b.*", False),
    (r"ok\s+\S+\s+(?:[\d.]+s|\(cached\)).*", True),
    (r"(?:\[\w+\]\s+)?BUILD SUCCESS(?:FUL)?\b.*", True),
    (r"(?:\[\w+\]\s+)?BUILD FAIL(?:URE|ED)\b.*", False),
    (r"(?i)all (?:\d+ )?(?:checks|tests|cases)(?: have)? passed\b.*|(?:success: )?no issues found\b.*", True),
    (r"error\[E\d+\]: .*|error: (?:could not compile|test failed)\b.*|.*\berror TS\d+: .*", False),
    (r"(?:g?make|ninja)(?:\[\d+\])?: (?:\*\*\* \[|build stopped).*", False),
))  # fmt: skip
"""Results in words, without counts."""

_OF_TESTS = re.compile(r"(?i)\b(?:tests?|cases?|specs?|examples?|passed|passing)\b")
"""A result that counts tests is a test result, whatever `make` was told to build."""

_RAN = re.compile(r"Ran (\d+) tests?\b")
"""How many tests the worded result below it covers."""

_SHARE = re.compile(rf"(?i)\b(\d+)(?:/| of )(\d+) (?:(?:{_TOTAL}) )?(?:{_GOOD})\b")

_CHECK_TOOL = re.compile(
    r"(?i)^(?:(?:run|execute)_?)?(?:(?P<test>(?:unit_?|all_?)?tests?|test_?suite|pytest)|(?P<build>build|compile)"
    r"|(?P<lint>lint(?:er)?|type_?check))(?:_(?:project|code|suite|all))?$"
)
"""Tools that are named after a check."""

_COUNT = re.compile(r'"(?:passed|failed|failures|errors)": ?\d+')
"""A count in a JSON answer."""

LOOKS_ONLY = re.compile(
    r"--(?:help|version|collect-only|co|dry-run|check-only|just-print|list|listTests|fixtures|markers|showConfig)"
)
"""Options that make a command only describe itself, or list what it would do."""

_NO_RUN = re.compile(
    r"(?im)^[^\n]{0,80}: (?:command )?not found\s*$|(?<!Error): No module named '?[\w.-]+'?\s*$"
    r"|' is not recognized as an internal|missing script|can't open file|no rule to make target"
    r"|^\W*no tests (?:ran|collected)"
)
"""The check could not be started, which says nothing about what it was to check."""


def results_in(output: str) -> Iterator[SummaryResult]:
    """Yield the results in an output's summary lines, in order; a pass of zero tests does not count."""
    was_empty = False
    for line in _ANSI.sub("", output[-_MAX_CHARS:]).splitlines():
        stripped = line.strip()
        passed = _said_by(stripped) if 0 < len(stripped) <= _MAX_LINE_CHARS else None
        if (ran := _RAN.match(stripped)) is not None:
            was_empty = ran[1] == "0"
        if passed is not None and not (passed and was_empty):
            yield SummaryResult(passed, stripped.strip(" ="))


def _said_by(line: str) -> bool | None:
    worded = next((passed for pattern, passed in _WORDED if pattern.fullmatch(line)), None)
    if not any(map(str.isdigit, line)):
        return worded
    if (share := _SHARE.search(line)) and int(share[1]) < int(share[2]):
        return False
    pairs = list(_PAIR.finditer(line))
    if not pairs or not _AROUND.fullmatch(_PAIR.sub("", line)):
        return worded
    counts = dict[str, int]()
    for pair in pairs:
        number = int(pair["n"] or pair["n_"])
        kind = next((kind for kind in ("good", "bad", "total") if pair[kind] or pair[f"{kind}_"]), "")
        left = kind == "bad" and (pair["bad"] or "").lower() == "remaining"
        counts[kind] = number if left else counts.get(kind, 0) + number
    if counts.get("bad"):
        return False
    says_so = counts.get("good") or ("bad" in counts and counts.get("total", counts.get("good", 1)))
    return True if says_so else worded


def read_check(command: Command, output: str, failed: bool | None) -> CheckResult | None:
    """Return the result of a check that `command` ran; None when neither its name nor its output shows a check.

    `failed` is whether the exit code or the host reports the whole line as failed; None when neither does. The last
    summary line counts. A summary of failure outweighs exit code 0. A nonzero code outweighs a summary of success if
    it is the check's own. Where another part may print others' text, there is no result without the check's own code.
    """
    part = command.check
    if part is None:
        return None
    is_known, looks_only = part.purpose in CHECKS, any(map(LOOKS_ONLY.fullmatch, part.words))
    found = [each for each in results_in(output) if not _is_written_in(command.text, each.line)]
    if not is_known and (looks_only or not found):
        return None
    counts_tests = part.purpose == "build" and bool(found) and _OF_TESTS.search(found[-1].line) is not None
    purpose: Purpose = part.purpose if is_known and not counts_tests else "test"
    code = command.code_of(part, output, failed)
    if looks_only or (code is None and command.prints_others(part)):
        return CheckResult(part.name, purpose, None)
    passed, summary = found[-1] if found else (None, "")
    if code is not None and (found or not _NO_RUN.search(output[-_MAX_CHARS:])):
        passed = not code and passed is not False
    was_mended = passed is True and not all(each.passed for each in found) and command.is_before_and_after(part)
    return CheckResult(part.name, purpose, passed, summary, was_mended)


def _is_written_in(text: str, line: str) -> bool:
    """Whether the result line is written in the command line itself; in a search pattern it does not count."""
    return line in text and re.search(rf"(?<![\w|(^]){re.escape(line)}(?![\w|)$])", text) is not None


def read_tool_check(tool: str, output: str, failed: bool | None) -> CheckResult | None:
    """Return the result of a tool that runs a check, such as `run_tests`; None for any other tool.

    It passed when every result in its answer passed and `failed`, as reported of the call, does not contradict that.
    """
    check = _CHECK_TOOL.match(tool.rpartition("__")[2])
    if check is None:
        return None
    counts = ", ".join(_COUNT.findall(output[-_MAX_CHARS:])).replace('"', "")
    found = [*results_in(f"{output}\n{counts}")]
    passes = [each.passed for each in found] + ([] if failed is None else [not failed])
    summary = found[-1].line if found else ""
    return CheckResult(tool, cast(Purpose, check.lastgroup), all(passes) if passes else None, summary)
