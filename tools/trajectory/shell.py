"""What a shell command is for, read from its text alone."""

import re
from collections.abc import Container, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

Purpose = Literal["test", "build", "lint", "install", "run", "search", "read", "print", "edit", "vcs", "wait", "other"]

CHECKS: frozenset[Purpose] = frozenset({"test", "build", "lint"})
"""Purposes whose result says whether the work is right."""

_MAX_COMMAND_CHARS = 20_000
_WRAPPERS = {
    "sudo": 0, "time": 0, "nohup": 0, "env": 0, "command": 0, "exec": 0, "nice": 0, "npx": 0, "timeout": 1, "stdbuf": 0,
    "then": 0, "do": 0, "else": 0, "if": 0, "elif": 0, "while": 0, "until": 0,
}  # fmt: skip
"""Programs that run the command given to them; how many arguments of their own come before it."""

_WRAPPER_VALUES = {
    "nice": ("-n",), "sudo": ("-u", "-g", "-C", "-h", "-p"), "timeout": ("-s", "-k"), "env": ("-u", "-C"),
    "stdbuf": ("-i", "-o", "-e"),
}  # fmt: skip
_WRAPPER_PAIRS = frozenset({
    ("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("hatch", "run"), ("pdm", "run"), ("rye", "run"),
    ("conda", "run"), ("bundle", "exec"), ("yarn", "exec"), ("pnpm", "exec"), ("pnpm", "dlx"), ("yarn", "dlx"),
    ("npm", "exec"), ("coverage", "run"), ("cargo", "+nightly"),
})  # fmt: skip

_WITH_VALUE = frozenset(
    {"-n", "--name", "-p", "--prefix", "--extra", "--group", "--with", "--python", "--env", "--project", "--directory",
     "--package", "--env-file", "--cwd"}
)  # fmt: skip
"""Options of these that are followed by a value."""

_BY_PROGRAM: dict[str, Purpose] = {
    **dict.fromkeys(
        ("pytest", "tox", "jest", "vitest", "mocha", "ava", "jasmine", "karma", "rspec", "phpunit", "ctest", "trial"),
        "test",
    ),
    **dict.fromkeys(
        ("make", "cmake", "ninja", "gcc", "g++", "cc", "clang", "clang++", "javac", "rustc", "tsc", "vite", "webpack",
         "rollup", "esbuild", "bazel", "xcodebuild", "mix"),
        "build",
    ),
    **dict.fromkeys(
        ("ruff", "mypy", "pyright", "flake8", "pylint", "black", "isort", "eslint", "prettier", "biome", "clippy",
         "golangci-lint", "rubocop", "shellcheck", "phpstan", "pre-commit", "standard"),
        "lint",
    ),
    **dict.fromkeys(
        ("grep", "rg", "egrep", "fgrep", "ack", "find", "fd", "locate", "which", "type", "command -v", "hash",
         "whereis", "diff", "cmp", "test", "[", "[[", "pgrep", "lsof", "search_dir", "search_file", "find_file"),
        "search",
    ),
    **dict.fromkeys(
        ("cat", "head", "tail", "less", "more", "ls", "tree", "wc", "file", "stat", "du", "df", "nl", "ps", "pwd",
         "open", "date", "whoami", "uname", "hostname", "jq", "yq", "sort", "uniq", "cut", "awk", "column", "xxd", "id",
         "top", "history", "man", "strings", "journalctl", "env", "printenv", "true", "false", "goto", "scroll_up",
         "scroll_down"),
        "read",
    ),
    **dict.fromkeys(("sleep", "wait"), "wait"),
    **dict.fromkeys(("echo", "printf", "yes", "seq", "banner"), "print"),
    **dict.fromkeys(
        ("sed", "mkdir", "touch", "cp", "mv", "rm", "rmdir", "ln", "chmod", "chown", "tee", "patch", "truncate", "dd",
         "perl", "install", "tar", "unzip", "zip", "apply_patch", "create"),
        "edit",
    ),
    **dict.fromkeys(("git", "gh", "hg", "svn", "glab"), "vcs"),
    **dict.fromkeys(("pip", "pip3", "apt", "apt-get", "brew", "apk", "yum", "dnf", "gem", "conda"), "install"),
}  # fmt: skip

_TASK_RUNNERS = frozenset({"npm", "pnpm", "yarn", "bun", "deno", "just", "task", "composer", "make"})
_SCRIPT_PURPOSES: tuple[tuple[re.Pattern[str], Purpose], ...] = (
    (re.compile(r"(^|[:_-])(tests?|spec|e2e|unit|integration|check|ci|verify)($|[:_-])"), "test"),
    (re.compile(r"(^|[:_-])(lint|format|fmt|types?|typecheck|tsc|eslint|prettier|mypy|ruff)($|[:_-])"), "lint"),
    (re.compile(r"(^|[:_-])(build|compile|bundle|dist|all)($|[:_-])"), "build"),
    (re.compile(r"^(i|ci|install|add|remove|uninstall|update|upgrade)$"), "install"),
)
_SUBCOMMANDS: dict[str, dict[str, Purpose]] = {
    "go": {"test": "test", "build": "build", "vet": "lint", "run": "run", "install": "install", "get": "install"},
    "cargo": {"test": "test", "nextest": "test", "build": "build", "check": "build", "clippy": "lint", "fmt": "lint",
              "run": "run", "add": "install", "install": "install"},
    "dotnet": {"test": "test", "build": "build", "publish": "build", "format": "lint", "run": "run",
               "restore": "install", "add": "install"},
    "swift": {"test": "test", "build": "build", "run": "run"},
    "zig": {"test": "test", "build": "build"},
    "mix": {"test": "test", "compile": "build", "format": "lint", "deps.get": "install"},
    "docker": {"build": "build", "compose": "run", "run": "run"},
    "uv": {"sync": "install", "add": "install", "pip": "install", "lock": "install"},
    "poetry": {"install": "install", "add": "install", "build": "build"},
    "next": {"build": "build", "lint": "lint"},
    "vite": {"build": "build"},
    "helm": {"lint": "lint"},
    "terraform": {"validate": "lint", "plan": "build"},
    "ruff": {"format": "lint", "check": "lint"},
    "manage.py": {"test": "test", "check": "lint"},
    "playwright": {"test": "test", "install": "install"},
    "forge": {"test": "test", "build": "build"},
}  # fmt: skip
_MODULES: dict[str, Purpose] = {
    "pytest": "test", "unittest": "test", "tox": "test", "doctest": "test", "mypy": "lint", "ruff": "lint",
    "flake8": "lint", "pylint": "lint", "black": "lint", "py_compile": "build", "build": "build", "pip": "install",
    "venv": "install",
}  # fmt: skip
_GRADLE = re.compile(r"(^|:)(test|check|.*Test)$")
_INTERPRETERS = re.compile(r"^(python[\d.]*|pypy\d*|node|ruby|php|bash|sh|zsh|tsx|ts-node|Rscript|julia|java|lua)$")
_TEST_FILE = re.compile(r"(^|/)(run_?tests?|tests?|test_[\w-]+|[\w-]+_test|runtests|[\w-]+[._](test|spec))(\.\w+)?$")
_SCRIPT_FILE = re.compile(r"\.\w{1,5}$")
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
_SHELL_SCRIPT = re.compile(r"-[a-z]*c")
"""The option of a shell that a command line follows: `bash -lc "…"`."""

_CONTROL = frozenset(
    {"cd", "pushd", "popd", "export", "set", "source", ".", "unset", "ulimit", "umask", "for", "select", "case", "fi",
     "done", "esac", "function"}
)  # fmt: skip
"""Words at the beginning of what runs no program of its own."""

_SHOWS_OTHERS = frozenset({"show", "log", "blame", "grep", "cat-file", "pr", "issue", "api", "run"})
_BRINGS_FILES = frozenset(
    {"stash", "checkout", "switch", "restore", "reset", "apply", "revert", "merge", "pull", "rebase"}
)
_WRITING_SCRIPT = re.compile(r"\.write(?:_text|_bytes|lines)?\(|writeFile|open\([^)\n]*,\s*(?:mode=)?['\"][wax]")
_PROBING_PROGRAMS = frozenset({"which", "type", "test", "[", "[[", "hash", "whereis", "command -v"})
_PLAIN = re.compile(r"[^\s'\"\\$`#;&|<>()]+")
_OPERATOR = re.compile(r"&&|\|\||;;?&?|\|&|&(?!>)|\|")
_REDIRECT = re.compile(r"&>>?|<<<|<<-?|<>|<&|>&|>>|>\||<|>")
_DESCRIPTOR = re.compile(r"\d+-?|-")
_IN_QUOTES = re.compile(r"\\(.)|\$\(|\"", re.S)
_IN_PARENTHESES = re.compile(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"|[()]", re.S)


class Part(NamedTuple):
    """One simple command of a command line."""

    program: str
    """Base name, wrappers taken off; `python -m pytest` is `pytest`."""
    subcommand: str
    """The first argument that is not an option; of a task runner the script's name; may be empty."""
    purpose: Purpose
    words: tuple[str, ...]
    joined_by: str
    """The separator that follows it: `&&`, `||`, `;`, `|` or empty for the last."""
    outputs: tuple[str, ...] = ()
    """The files that its standard output is redirected to."""

    @property
    def is_probe(self) -> bool:
        """Whether it only asks what there is, or how something is called: its "no" and its usage are answers."""
        return self.program in _PROBING_PROGRAMS or _asks_for_help(self.words)

    @property
    def is_inline(self) -> bool:
        """Whether an interpreter runs what the command line itself holds: `python -c …`, `python - <<END`."""
        given = self.words[1:2]
        return bool(_INTERPRETERS.match(self.program)) and (not given or given[0] in ("-", "-c", "-e"))

    @property
    def name(self) -> str:
        """A short name of what it runs, such as `npm test` or `pytest`."""
        if self.program in _TASK_RUNNERS or self.program in _SUBCOMMANDS or self.purpose == "vcs":
            return f"{self.program} {self.subcommand}".strip()
        if _INTERPRETERS.match(self.program) and _SCRIPT_FILE.search(self.subcommand):
            return f"{self.program} {PurePosixPath(self.subcommand).name}"
        return self.program

    @property
    def prints_others(self) -> bool:
        """Whether it may print what somebody else wrote; what a change looks like is the agent's own work."""
        if self.purpose == "vcs":
            return self.subcommand in _SHOWS_OTHERS and "--oneline" not in self.words
        if self.purpose == "print":
            return any(mark in word for word in self.words for mark in ("$(", "`"))
        return self.purpose in ("read", "search", "other")


class Command(NamedTuple):
    """A command line: its simple commands, and the one that it is about."""

    text: str
    parts: tuple[Part, ...]

    @property
    def main(self) -> Part | None:
        """The part that a reader would name it by: a check first, then whatever is not mere looking or printing."""
        for wanted in (CHECKS, {"run", "install", "vcs", "other"}, {"edit"}, {"search", "read", "print"}, {"wait"}):
            found = [part for part in self.parts if part.purpose in wanted]
            if found:
                return found[-1] if wanted is CHECKS else found[0]
        return None

    @property
    def is_probe(self) -> bool:
        """Whether its main part only asks what there is, or how something is called."""
        return self.main is not None and self.main.is_probe

    @property
    def purpose(self) -> Purpose:
        """The purpose of its main part."""
        return self.main.purpose if self.main else "other"

    @property
    def check(self) -> Part | None:
        """The part that tests, builds or lints; else the last that runs a program, whose output may say that it does.

        None where no part does, or the command line itself holds what is run.
        """
        for wanted in (CHECKS, {"run", "other"}):
            found = [part for part in self.parts if part.purpose in wanted and not part.is_inline]
            if found:
                return found[-1]
        return None

    def exit_code_is_of(self, part: Part) -> bool:
        """Whether an exit code of 0 of the line is one of `part` too: not when `|`, `||`, `;` or `&` follows it."""
        return all(each.joined_by in ("&&", "") for each in self.parts[self._place(part) :])

    def code_of(self, part: Part, output: str, failed: bool | None) -> bool | None:
        """Return whether `part` failed; None where nothing tells. `failed` is said of the whole line.

        `part; echo rc=$?` prints it.
        """
        place = self._place(part)
        following = self.parts[place + 1] if place + 1 < len(self.parts) else None
        if part.joined_by == ";" and following and following.program == "echo" and "$?" in following.words[-1]:
            told = re.escape(" ".join(following.words[1:])).replace(re.escape("$?"), r"(\d+)")
            codes = re.findall(rf"(?m)^{told}\s*$", output)
            return bool(int(codes[-1])) if codes else None
        return failed if self.exit_code_is_of(part) else None

    def prints_others(self, part: Part) -> bool:
        """Whether something beside `part`, but for what its output is piped to, may print what somebody else wrote."""
        is_filter, place = False, self._place(part)
        for at, each in enumerate(self.parts):
            if at != place and each.prints_others and not is_filter and each.joined_by != "|":
                return True
            is_filter = each.joined_by == "|" and (is_filter or at == place or not each.prints_others)
        return False

    def is_before_and_after(self, part: Part) -> bool:
        """Whether the line runs something without its changes first, or with them put away, and `part` with them."""
        runs = [at for at, each in enumerate(self.parts) if each.purpose in CHECKS | {"run"} and not each.is_inline]
        changed = [at for at, each in enumerate(self.parts[: self._place(part)]) if self.changes(each)]
        return bool(changed) and (min(runs) < changed[0] or self.puts_away)

    @property
    def puts_away(self) -> bool:
        """Whether what was changed is put away for a while."""
        return any(part.program == "git" and part.subcommand == "stash" for part in self.parts)

    def changes_after(self, part: Part) -> bool:
        """Whether something is changed behind `part`; what its output is piped to keeps that."""
        behind = self.parts[self._place(part) :]
        return any(self.changes(each) for before, each in pairwise(behind) if before.joined_by != "|")

    def changes(self, part: Part) -> bool:
        """Whether a part of the line writes a file, or brings another state of the files."""
        if part.is_inline:
            return _WRITING_SCRIPT.search(self.text) is not None
        return part.purpose == "edit" or (part.purpose == "vcs" and part.subcommand in _BRINGS_FILES)

    def _place(self, part: Part) -> int:
        """The same words may stand twice: the last counts."""
        return len(self.parts) - 1 - self.parts[::-1].index(part)

    @property
    def waits(self) -> bool:
        """Whether a part of it does nothing but let time pass."""
        return any(part.purpose == "wait" for part in self.parts)

    @property
    def name(self) -> str:
        """A short name of what it runs, such as `npm test` or `pytest`; empty for an empty line."""
        return self.main.name if self.main else ""


@lru_cache(maxsize=512)
def parse_command(text: str) -> Command:
    """Parse a command line. It never fails: what the shell could not parse is split at white space."""
    parts = [
        part
        for words, outputs, separator in _Scanner(text[:_MAX_COMMAND_CHARS]).commands()
        for part in _parts(words, tuple(outputs), separator)
    ]
    if parts:
        parts[-1] = parts[-1]._replace(joined_by="")
    return Command(text, tuple(parts))


class _Scanner:
    """Takes a command line apart as a shell does, in one pass; what is never closed is taken as it stands."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._unclosed = set[str]()
        """What was seen to have no end: it is not looked for again, which would be quadratic."""
        self._ends: list[str] = []
        """Of the here-documents that begin after this line."""

    def commands(self) -> Iterator[tuple[list[str], list[str], str]]:
        """Yield words, the files that output goes to, and the separator that follows, of each simple command."""
        words, outputs = list[str](), list[str]()
        while self._at < len(self._text):
            char = self._text[self._at]
            found = _OPERATOR.match(self._text, self._at)
            if found or char == "\n":
                self._at += len(found[0] if found else char)
                if not found:
                    self._skip_documents()
                yield words, outputs, found[0] if found else ";"
                words, outputs = [], []
            elif char.isspace() or char in "()":
                self._at += 1
            elif char == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end
            elif found := _REDIRECT.match(self._text, self._at):
                numbered = bool(words) and words[-1].isdigit() and self._text[self._at - 1].isdigit()
                stream = words.pop() if numbered else "1"
                target = self._redirected(found)
                if stream == "1" and target and not target.startswith("/dev/"):
                    outputs.append(target)
            else:
                words.append(self._word())
        yield words, outputs, ""

    def _redirected(self, found: re.Match[str]) -> str:
        """Step over a redirection and its target, and return the file that it writes to; empty where it writes none."""
        self._at = found.end()
        if self._text.startswith("(", self._at):
            self._at = self._end_of_parentheses(self._at + 1) or self._at + 1
            return ""
        while self._text[self._at : self._at + 1] in (" ", "\t"):
            self._at += 1
        first = self._text[self._at : self._at + 1]
        target = self._word()
        if found[0] in ("<<", "<<-") and (first.isalpha() or first in ("'", '"', "_", "\\")):
            self._ends.append(target)
        is_file = ">" in found[0] and not (found[0] == ">&" and _DESCRIPTOR.fullmatch(target))
        return target if is_file else ""

    def _skip_documents(self) -> None:
        """Step over here-documents; one that does not end reaches to the end, as a shell has it."""
        for end in self._ends:
            line = None
            while line != end and self._at < len(self._text):
                following = self._text.find("\n", self._at)
                following = len(self._text) if following < 0 else following
                line, self._at = self._text[self._at : following].strip(), following + 1
        self._ends = []

    def _word(self) -> str:
        """Return the word that begins here, without its quotes; what stands in `$(…)` stays in it."""
        pieces: list[str] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            if found := _PLAIN.match(self._text, self._at):
                pieces.append(found[0])
                self._at = found.end()
            elif char == "\\":
                pieces.append(self._text[self._at + 1 : self._at + 2].strip("\n"))
                self._at += 2
            elif char in "'\"`$" or (char == "(" and pieces and pieces[-1].endswith("=")):
                pieces.append(self._quoted(char))
            elif char == "#":
                pieces.append(char)
                self._at += 1
            else:
                break
        return "".join(pieces)

    def _quoted(self, char: str) -> str:
        """Return what a quote, `$(…)`, back-ticks or the parentheses of a list hold, or the one character."""
        begin, text = self._at, self._text
        self._at += 1
        if char == '"' and char not in self._unclosed:
            return self._double_quoted(begin)
        if char in "'`" and (end := text.find(char, begin + 1)) >= 0:
            self._at = end + 1
            return text[begin + 1 : end] if char == "'" else text[begin : end + 1]
        if char == "(" or text.startswith("$(", begin):
            self._at = self._end_of_parentheses(begin + 1 + (char == "$")) or self._at
        elif text.startswith("$'", begin):
            return ""
        return text[begin : self._at]

    def _double_quoted(self, begin: int) -> str:
        pieces, at = list[str](), begin + 1
        while found := _IN_QUOTES.search(self._text, at):
            pieces.append(self._text[at : found.start()])
            at = found.end()
            if found[0] == '"':
                self._at = at
                return "".join(pieces)
            end = self._end_of_parentheses(at) if found[0] == "$(" else None
            pieces.append(self._text[found.start() : end] if end else _unescaped(found))
            at = end or at
        self._unclosed.add('"')
        return '"'

    def _end_of_parentheses(self, at: int) -> int | None:
        """Return where what was opened before `at` is closed; None where it never is."""
        depth = 1
        for found in _IN_PARENTHESES.finditer(self._text, at) if "(" not in self._unclosed else ():
            depth += (found[0] == "(") - (found[0] == ")")
            if not depth:
                return found.end()
        self._unclosed.add("(")
        return None


def _unescaped(found: re.Match[str]) -> str:
    if found[1] == "\n":
        return ""
    return found[1] if found[1] and found[1] in '$`"\\' else found[0]


def _parts(words: list[str], outputs: tuple[str, ...], separator: str) -> tuple[Part, ...]:
    words = _unwrapped([word for word in words if word not in ("{", "}", "!")])
    if not words or words[0] in _CONTROL:
        return (Part(":", "", "edit", (":",), separator, outputs),) if outputs else ()
    first = words[0].split()[-1] if words[0].startswith(("$(", "`")) else words[0]
    plain = first.strip("()`$\"'")
    name = PurePosixPath(plain).name
    program = plain.removeprefix("./") if name in _PROBING_PROGRAMS and "/" in plain else name or words[0]
    rest = words[1:]
    option = next((at for at, word in enumerate(rest[:-1]) if _SHELL_SCRIPT.fullmatch(word)), None)
    if program in _SHELLS and option is not None:
        *before, last = parse_command(rest[option + 1]).parts or (None,)
        return (*before, last._replace(joined_by=separator, outputs=last.outputs + outputs)) if last else ()
    if _INTERPRETERS.match(program) and len(rest) > 1 and rest[0] == "-m":
        program, rest = rest[1], rest[2:]
        purpose = _MODULES.get(program, "run")
        return (Part(program, _first_plain(rest), purpose, (program, *rest), separator, outputs),)
    subcommand = _first_plain(rest)
    if program in _TASK_RUNNERS and subcommand in ("run", "run-script") and len(rest) > 1:
        subcommand = _first_plain(rest[rest.index(subcommand) + 1 :]) or subcommand
    is_suite = program == "test" and "/" in words[0] and not words[0].startswith(("/bin/", "/usr/bin/"))
    purpose = "test" if is_suite else _purpose(program, subcommand, rest, writes=bool(outputs))
    return (Part(program, subcommand, purpose, (program, *rest), separator, outputs),)


def _unwrapped(words: list[str]) -> list[str]:
    while words:
        if _ASSIGNMENT.match(words[0]):
            words = words[1:]
        elif words[0] == "command" and len(words) > 2 and words[1] in ("-v", "-V"):
            return ["command -v", *words[2:]]
        elif words[0] in _WRAPPERS:
            words = _after_options(words[1:], _WRAPPER_VALUES.get(words[0], ()))[_WRAPPERS[words[0]] :]
        elif len(words) > 2 and (PurePosixPath(words[0]).name, words[1]) in _WRAPPER_PAIRS:
            words = _after_options(words[2:], _WITH_VALUE)
            words = ["python", *words] if words[:1] == ["-m"] else words
        else:
            break
    return words


def _after_options(words: list[str], with_value: Container[str]) -> list[str]:
    """Return what follows the options of a program that runs another one; `-m` begins a module of its own."""
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-m":
        at += 2 if words[at] in with_value else 1
    return words[at:]


def _first_plain(words: list[str]) -> str:
    return next((word for word in words if not word.startswith(("-", "+"))), "")


def _asks_for_help(words: Sequence[str]) -> bool:
    """Whether a program is asked for its usage or its version, and does nothing else."""
    program, rest = words[0], words[1:]
    if "--help" in rest or (rest and (rest[0] == "help" or (rest[-1] == "-h" and len(rest) <= 2))):
        return True
    is_short = _INTERPRETERS.match(program) is not None or program in _TASK_RUNNERS
    return len(rest) == 1 and (rest[0] in ("--version", "version") or (rest[0] in ("-v", "-V") and is_short))


def _purpose(program: str, subcommand: str, rest: list[str], *, writes: bool) -> Purpose:
    if _asks_for_help([program, *rest]):
        return "read"
    if program in _SUBCOMMANDS and subcommand in _SUBCOMMANDS[program]:
        return _SUBCOMMANDS[program][subcommand]
    if program in ("mvn", "mvnw", "gradle", "gradlew"):
        tests = any(_GRADLE.search(word) or word in ("verify", "test") for word in rest)
        return "test" if tests else "build"
    if program in _TASK_RUNNERS:
        for pattern, purpose in _SCRIPT_PURPOSES:
            if pattern.search(subcommand):
                return purpose
        return _BY_PROGRAM.get(program, "run")
    if program in ("cat", "echo", "printf") and writes:
        return "edit"
    if program == "sed" and not any(word.startswith(("-i", "--in-place")) for word in rest):
        return "read"
    if program in _BY_PROGRAM:
        return _BY_PROGRAM[program]
    if _TEST_FILE.search(subcommand if _INTERPRETERS.match(program) else program):
        return "test"
    if _INTERPRETERS.match(program) and "manage.py" in subcommand and "test" in rest:
        return "test"
    return "run" if _INTERPRETERS.match(program) or "/" in program or program in _SUBCOMMANDS else "other"
