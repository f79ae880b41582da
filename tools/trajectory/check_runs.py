"""Check runs: who wrote them, what they cover, and whether the task asks for them. Also the files of a trajectory:
when and by which call each was written, and which existed before.

A file is identified by its path as the calls name it. One call may give the full path and another only the end of it,
so two paths are taken as the same file when one ends with the other.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from swarm_memory.tools.text.tokens import code_spans
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.checks import CheckResult
from swarm_memory.tools.trajectory.phrasing import folder_of
from swarm_memory.tools.trajectory.shell import Command, Part, Purpose, parse_command

How = Literal["write", "change", "read", "delete"]
"""`write` writes the whole file and needs none to exist; `change` needs an existing one."""

_WHOLE = re.compile(r"(?i)write|create|new_?file|save")
_READS = re.compile(r"(?i)^(?:read|view|open|cat|goto|scroll)")
_DELETES = re.compile(r"(?i)delete|remove")
_PATCH_LINE = re.compile(r"(?m)^\*\*\* (Add|Update|Delete) File: (.+?)\s*$")
_BY_PROGRAM: dict[str, How] = {
    **dict.fromkeys(("tee", "touch", "create"), "write"), "truncate": "change", "patch": "change", "rm": "delete",
    **dict.fromkeys(("cat", "head", "tail", "less", "more", "nl", "wc", "open"), "read"),
}  # fmt: skip
_IN_PLACE = re.compile(r"-[a-z0]*i|--in-place")
_IS_PATH = re.compile(r"(?=.*\w)[^\x00-\x1f<>|;\"'`^]{1,400}(?<!:)")
_BY_SCRIPT = re.compile(
    r"(?:open|Path|writeFile(?:Sync)?)\(\s*[rf]?['\"]([^'\"\n]{1,200})['\"](?:\)\.write_|,(?!\s*(?:['\"]r|encoding)))"
)
"""The file that an inline script writes whole."""

_QUOTED_PATH = re.compile(r"['\"]([\w./~-]{0,200}\w\.[A-Za-z]\w{0,7})['\"]")
"""Any other file that such a script names."""


@dataclass(frozen=True, slots=True)
class File:
    """One file and everything that was done to it."""

    path: str
    """The longest form of the path that a call gives."""
    touches: tuple[tuple[How, Call], ...]
    """What was done to it, by which call, in order."""
    is_own: bool
    """Whether the agent created it, as far as the calls show: it was written whole before it was read or changed."""

    @property
    def writes(self) -> tuple[Call, ...]:
        """The calls that wrote or changed it and did not fail, in order."""
        return tuple(call for how, call in self.touches if how in ("write", "change"))


def files_of(calls: Sequence[Call]) -> tuple[File, ...]:
    """Return all files that the calls of a trajectory name; failed, refused and unanswered calls are ignored."""
    by_path: dict[str, list[tuple[How, Call]]] = {}
    for call in calls:
        if call.observation is None or call.failed or call.refused:
            continue
        for path, how in _of_command(call.command) if call.command else _of_tool(call):
            if _IS_PATH.fullmatch(path) and not path.startswith("/dev/"):
                plain = str(PurePosixPath(path.replace("\\", "/"))).removeprefix("./")
                by_path.setdefault(plain, []).append((how, call))
    groups: dict[str, list[tuple[How, Call]]] = {}
    wholes: dict[str, str] = {}
    for path in sorted(by_path, key=len, reverse=True):
        # Longer paths come first; a shorter one that is the end of a longer one is taken as the same file.
        whole = wholes.get(path, path)
        groups.setdefault(whole, []).extend(by_path[path])
        for slash in re.finditer("/", path) if whole == path else ():
            wholes.setdefault(path[slash.end() :], path)
    files: list[File] = []
    for path, touches in groups.items():
        touches.sort(key=lambda each: each[1].position)
        first = next((how for how, _ in touches if how != "delete"), None)
        files.append(File(path, tuple(touches), is_own=first == "write"))
    return tuple(files)


def _of_tool(call: Call) -> Iterator[tuple[str, How]]:
    path, verb = call.file, call.verb
    replaced = call.input.get("old_string", call.input.get("old_str"))
    if not path:
        for value in call.input.values():
            yield from _of_patch(str(value))
    elif _DELETES.search(verb):
        yield path, "delete"
    elif _READS.match(verb):
        yield path, "read"
    elif _WHOLE.search(verb) or replaced == "":
        yield path, "write"
    elif call.writes:
        yield path, "change"


def _of_patch(text: str) -> Iterator[tuple[str, How]]:
    kinds: dict[str, How] = {"Add": "write", "Delete": "delete"}
    for match in _PATCH_LINE.finditer(text) if "*** Begin Patch" in text else ():
        yield match[2], kinds.get(match[1] or "", "change")


def _of_command(command: Command) -> Iterator[tuple[str, How]]:
    for part in command.parts:
        for path in part.outputs:
            yield path, "write"
        yield from _of_part(part)
    yield from _of_patch(command.text)
    if any(part.is_inline and command.changes(part) for part in command.parts):
        for path in _BY_SCRIPT.findall(command.text):
            yield path, "write"
        for path in _QUOTED_PATH.findall(command.text):
            yield path, "change"


def _of_part(part: Part) -> Iterator[tuple[str, How]]:
    words = part.words[1:]
    plain = [word for word in words if not word.startswith("-")]
    how = _BY_PROGRAM.get(part.program)
    if part.program in ("sed", "perl"):
        how = "change" if any(_IN_PLACE.match(word) for word in words) else "read" if part.program == "sed" else None
        plain = plain[1:]  # without the script itself
    elif part.program in ("cp", "mv", "install", "ln"):
        plain, how = plain[1:][-1:], "write"
    if how is not None:
        for word in plain:
            yield word, how


_PATH = re.compile(r"[/.]|::")
_TEST_FILE = re.compile(
    r"(?:.*/)?(?:(?:tests?|specs?|__tests__)/.+"
    r"|(?:tests?(?:[._-][^/]*)?|[^/]*[._-](?:tests?|specs?)|[^/]+(?:Tests?|Spec))\.\w+)"
    r"(?<!\.toml|\.yaml|\.json|\.conf)(?<!\.yml|\.ini|\.cfg|\.env|\.xml|\.csv|\.txt|\.log)(?<!\.md)"
)
"""The path of a test file, by its name or folder; settings, data and prose files do not count."""

_NARROWING = re.compile(
    r"-[kmtg]|-run|-Dtest|--(?:run|grep|filter|tests|deselect|ignore|lf|last-failed|testNamePattern|testPathPattern"
    r"|gtest_filter|only|tags?)"
)
"""Options that make a runner leave something out."""

_SETTING_UP = re.compile(r"-[cCfop]|--(?:config|project|rootdir|prefix)")
"""Options whose value is a setting, not a test."""

_TAKES_NAMES = frozenset({"cargo", "npm", "yarn", "pnpm", "manage.py", "mix", "rspec", "jest", "vitest"})
"""Runners that take a bare word as the name of what to run."""

_NAMED = re.compile(r"[\w./-]*\w\.[A-Za-z]\w*|\btest_\w{4,}|\bTest[A-Z]\w{4,}")
"""A file or a test that a task names."""

_SHOWN_ID = re.compile(r"(?m)(?<=::)\w+|(?<=^FAIL: )\w+|(?<=^ERROR: )\w+|^\w+(?= \()")
"""A test as a runner names it: `tests/test_a.py::test_x`, `test_x (tests.test_a.TestA)`."""

_ASKED = (
    r"(?i)\b(?:failing|broken|red|fix|repair)(?: [\w-]+){{0,4}} (?:{0})\b"
    r"|(?<![\w-])(?:{0})\b[^.\n]{{0,40}}\b(?:pass(?:es|ing)?|succeeds?|green|happy|goe?s? through)\b"
    r"|(?<![\w-])(?:{0})\b[^.\n]{{0,12}}\b(?:fail\w*|broken|red|crash\w*)\b"
    r"|\A\W*(?:(?:please|can you|could you) )?run\b[^.\n]{{0,60}}\b(?:{0})\b"
)
_WANTED: dict[Purpose, str] = {
    "test": r"tests?|specs?|suite|ci",
    "build": r"builds?|compil\w+|makefile",
    "lint": r"lint\w*|type.?check\w*|type errors?|mypy|ruff|eslint|clippy|pyright|flake8",
}
"""Words by which a task refers to a kind of check; the check's own name counts as well."""

_MAX_READ = 20_000


class Selection(NamedTuple):
    """What a check run covers."""

    paths: frozenset[str]
    """Files, folders and tests that were passed to it; empty: everything."""
    filters: frozenset[str]
    """What else narrows it: options with their values, names of tests."""

    @property
    def is_whole(self) -> bool:
        """Whether it runs everything that the runner finds, in the project or in a folder of it."""
        return not self.filters and not any(map(_is_file, self.paths))

    def covers(self, other: "Selection") -> bool:
        """Whether it covers everything that `other` covers."""
        if self.filters and self != other:
            return False
        return not self.paths or all(
            any(contains_path(mine, path) for mine in self.paths) for path in other.paths or ("",)
        )


_ALL = Selection(frozenset(), frozenset())


def selection_of(call: Call) -> Selection:
    """Return what a check covers, whether a command line or a tool runs it."""
    check = call.command.check if call.command else None
    given = (value for value in call.input.values() if isinstance(value, str) and value)
    words = [*(check.words[1:] if check else given if call.command is None else ())]
    if check and words[:1] == [check.subcommand] and check.name.endswith(f" {words[0].rpartition('/')[2]}"):
        words.pop(0)  # part of the check's name, not something that it covers
    takes_names = check is None or check.program in _TAKES_NAMES
    paths, filters = set[str](), set[str]()
    while words:
        word = words.pop(0)
        if _NARROWING.fullmatch(word.partition("=")[0]):
            has_value = words and "=" not in word and word not in ("--lf", "--last-failed")
            filters.add(f"{word} {words.pop(0)}" if has_value else word)
        elif _SETTING_UP.fullmatch(word):
            words[:1] = []
        elif _PATH.search(word) and not word.startswith("-"):
            paths.add(word.removeprefix("./").rstrip("/"))
        elif takes_names and not word.startswith("-") and not (check and word in (check.subcommand, "test", "run")):
            filters.add(word)
    paths -= {"", ".", "..."}
    if (root := folder_of(call.command.text) if call.command else "").startswith("/"):
        paths = {path if path.startswith("/") else f"{root}/{path}" for path in paths} or {root}
    return Selection(frozenset(paths), frozenset(filters))


@dataclass(frozen=True, slots=True)
class CheckRun:
    """One run of a check whose result is known."""

    call: Call
    result: CheckResult
    selection: Selection
    is_own: bool
    """Whether it rests on what the agent itself wrote in this trajectory, as far as the calls show."""
    changed_at: int
    """Position of the last change to a pre-existing test before this run; -1: there was none."""
    named: bool
    """Whether the task contains its command or names a file or test that it ran, or the user ran it."""
    wanted: bool
    """Whether the task asks for checks of its kind to run or to pass."""

    @property
    def name(self) -> str:
        return self.result.name

    @property
    def passed(self) -> bool:
        return self.result.passed is True

    @property
    def is_asked_for(self) -> bool:
        return self.named or (self.wanted and self.selection.is_whole)

    def repairs(self, failed: "CheckRun") -> bool:
        """Whether this is a later pass that covers `failed`: by the same check, or by one of its kind run in full."""
        if not self.passed or self.call.position <= failed.call.end:
            return False
        if self.name == failed.name:
            return self.selection.covers(failed.selection)
        return not failed.named and self.result.purpose == failed.result.purpose and self.selection == _ALL


def check_runs(task: str, calls: Sequence[Call], files: Sequence[File]) -> tuple[CheckRun, ...]:
    """Return the runs of tests, builds and linters whose result is known, in order."""
    tests = [file for file in files if _TEST_FILE.fullmatch(file.path) and not file.is_own]
    changed = [each.position for file in tests for each in file.writes]
    runs: list[CheckRun] = []
    for call in calls:
        check = call.check
        if check is None or check.passed is None:
            continue
        selection = selection_of(call)
        runs.append(
            CheckRun(
                call=call,
                result=check,
                selection=selection,
                is_own=rests_on_own(call, files, [each.call for each in runs if each.name == check.name]),
                changed_at=max((at for at in changed if at < call.position), default=-1),
                named=call.step.role == "user" or _is_named_in(task, call, selection),
                wanted=re.search(_ASKED.format(f"{_WANTED[check.purpose]}|{re.escape(check.name)}"), task) is not None,
            )
        )
    return tuple(runs)


def rests_on_own(call: Call, files: Sequence[File], before: Sequence[Call] = ()) -> bool:
    """Whether what a call runs was written whole by the agent itself, as far as the calls show.

    True when the command line names such a file, or a program built from it. Also true when no file is named and the
    agent's own tests may be included, unless a run in `before` preceded those tests and its output names none of them.
    """
    own = [file for file in files if file.is_own and file.writes[0].position <= call.position]
    files_ = {_last(file.path) for file in own}
    part = call.command.check if call.command else None
    words = {_last(word.partition("::")[0]) for word in part.words} if part else set[str]()
    if words & {*files_, *(name.partition(".")[0] for name in files_)}:
        return True
    tests = [file for file in own if _TEST_FILE.fullmatch(file.path)]
    if not tests or any(map(_is_file, selection_of(call).paths)):
        return False
    first = min(file.writes[0].position for file in tests)
    return not any(
        each.position < first and not any(_last(file.path) in each.output for file in tests) for each in before
    )


def _is_named_in(task: str, call: Call, selection: Selection) -> bool:
    """Whether a task contains a check's command, or names a file or test that was passed to it or is in its output."""
    check = call.command.check if call.command else None
    wanted = [each for span in code_spans(task) if (each := parse_command(span).check)]
    if check and any({each.program, *each.words} <= {check.program, *check.words} for each in wanted):
        return True
    given = {part.split()[-1] for part in (*selection.paths, *selection.filters)}
    given |= {part for path in given for part in (_last(path), path.rpartition("::")[2])}
    asked = {part for each in _NAMED.findall(task) for part in (each, _last(each))}
    return not asked.isdisjoint({*given, *_SHOWN_ID.findall(call.output[-_MAX_READ:])})


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _is_file(path: str) -> bool:
    return "." in _last(path.partition("::")[0]).strip(".")


def contains_path(outer: str, inner: str) -> bool:
    """Whether `outer` is the same path as `inner` or contains it; either may be relative."""
    if outer.startswith("/") and not inner.startswith("/"):
        return bool(inner) and outer.endswith(f"/{inner}")
    begin = "/" if inner.startswith("/") and not outer.startswith("/") else "^"
    return re.search(rf"{begin}{re.escape(outer)}(?:$|[/.\[]|::)", inner) is not None
