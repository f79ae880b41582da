"""What a shell command is for, read from its text alone."""

import re
import shlex
from bisect import bisect_left
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

Purpose = Literal["test", "build", "lint", "install", "run", "search", "read", "print", "edit", "vcs", "wait", "other"]

CHECKS: frozenset[Purpose] = frozenset({"test", "build", "lint"})
"""Purposes whose result says whether the work is right."""

_MAX_COMMAND_CHARS = 20_000
_WRAPPERS = {
    "sudo": 0, "time": 0, "nohup": 0, "env": 0, "command": 0, "exec": 0, "nice": 0, "npx": 0, "timeout": 1, "stdbuf": 0,
    "then": 0, "do": 0, "else": 0,
}  # fmt: skip
"""Programs that run the command given to them; how many arguments of their own come before it."""

_WRAPPER_PAIRS = frozenset({
    ("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("hatch", "run"), ("pdm", "run"), ("rye", "run"),
    ("conda", "run"), ("bundle", "exec"), ("yarn", "exec"), ("pnpm", "exec"), ("pnpm", "dlx"), ("yarn", "dlx"),
    ("npm", "exec"), ("coverage", "run"), ("cargo", "+nightly"),
})  # fmt: skip

_WITH_VALUE = frozenset({"-n", "--name", "-p", "--prefix", "--extra", "--group", "--with", "--python", "--project"})
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
        ("grep", "rg", "egrep", "fgrep", "ack", "find", "fd", "locate", "which", "type", "diff", "cmp", "test", "[",
         "[[", "pgrep", "lsof"),
        "search",
    ),
    **dict.fromkeys(
        ("cat", "head", "tail", "less", "more", "ls", "tree", "wc", "file", "stat", "du", "df", "nl", "ps", "pwd",
         "open", "date", "whoami", "uname", "hostname", "jq", "yq", "sort", "uniq", "cut", "awk", "column", "xxd", "id",
         "top", "history", "man", "strings", "journalctl", "env", "printenv", "true", "false"),
        "read",
    ),
    **dict.fromkeys(("sleep", "wait"), "wait"),
    **dict.fromkeys(("echo", "printf", "yes", "seq", "banner"), "print"),
    **dict.fromkeys(
        ("sed", "mkdir", "touch", "cp", "mv", "rm", "rmdir", "ln", "chmod", "chown", "tee", "patch", "truncate", "dd",
         "perl", "install", "tar", "unzip", "zip", "apply_patch"),
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
_SEPARATOR = re.compile(r"^(&&|\|\||;;?|&|\||\|&)$")
_REDIRECTION = re.compile(r"\d?>&\d|&>>?\s*[\w./-]+")
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1")


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
    def purpose(self) -> Purpose:
        """The purpose of its main part."""
        return self.main.purpose if self.main else "other"

    @property
    def check(self) -> Part | None:
        """The part that tests, builds or lints; None when there is none."""
        return self.main if self.main and self.main.purpose in CHECKS else None

    @property
    def exit_code_is_of_check(self) -> bool:
        """Whether the exit code of the line is that of its check."""
        return self.check is not None and self.exit_code_is_of(self.check)

    def exit_code_is_of(self, part: Part) -> bool:
        """Whether an exit code of 0 of the line is one of `part` too: not when `|`, `||`, `;` or `&` follows it."""
        after = self.parts[self.parts.index(part) :]
        return all(each.joined_by in ("&&", "") for each in after)

    @property
    def waits(self) -> bool:
        """Whether a part of it does nothing but let time pass."""
        return any(part.purpose == "wait" for part in self.parts)

    @property
    def name(self) -> str:
        """A short name of what it runs, such as `npm test` or `pytest`; empty for an empty line."""
        if self.main is None:
            return ""
        main = self.main
        if main.program in _TASK_RUNNERS or main.program in _SUBCOMMANDS or main.purpose == "vcs":
            return f"{main.program} {main.subcommand}".strip()
        if _INTERPRETERS.match(main.program) and _SCRIPT_FILE.search(main.subcommand):
            return f"{main.program} {PurePosixPath(main.subcommand).name}"
        return main.program


@lru_cache(maxsize=512)
def parse_command(text: str) -> Command:
    """Parse a command line. It never fails: what the shell could not parse is split at white space."""
    parts: list[Part] = []
    for line in _logical_lines(text[:_MAX_COMMAND_CHARS]):
        words: list[str] = []
        for token in [*_tokens(line), ";"]:
            if _SEPARATOR.match(token):
                part = _part(words, token)
                if part is not None:
                    parts.append(part)
                words = []
            else:
                words.append(token)
    if parts:
        last = parts[-1]
        parts[-1] = Part(last.program, last.subcommand, last.purpose, last.words, "")
    return Command(text, tuple(parts))


def _logical_lines(text: str) -> list[str]:
    """Split at line ends outside quotes; here-documents and redirections that are no commands are taken out."""
    flat = _REDIRECTION.sub(" ", _without_here_documents(text).replace("\\\n", " "))
    lines, quote, start = list[str](), "", 0
    for position, char in enumerate(flat):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == "\n":
            lines.append(flat[start:position])
            start = position + 1
    lines.append(flat[start:])
    return lines


def _without_here_documents(text: str) -> str:
    """Take out here-documents that end, in one pass: a search for the end from each beginning would be quadratic."""
    lines = text.split("\n")
    ends: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        ends.setdefault(line.strip(), []).append(number)
    kept: list[str] = []
    following = 0
    while following < len(lines):
        line = lines[following]
        following += 1
        for begin in _HEREDOC.finditer(line):
            places = ends.get(begin[2], [])
            end = bisect_left(places, following)
            if end < len(places):
                line = line[: begin.start()] + line[begin.end() :]
                following = places[end] + 1
                break
        kept.append(line)
    return "\n".join(kept)


def _tokens(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        return list(lexer)
    except ValueError:
        return line.split()


def _part(words: list[str], separator: str) -> Part | None:
    words = _unwrapped([word for word in words if word not in ("(", ")", "{", "}", "!")])
    if not words or words[0] in ("cd", "pushd", "popd", "export", "set", "source", ".", "unset", "ulimit", "umask"):
        return None
    program = PurePosixPath(words[0].strip("()`$\"'")).name or words[0]
    rest = words[1:]
    script = _script_of_shell(program, rest)
    if script is not None:
        inner = parse_command(script).main
        return Part(inner.program, inner.subcommand, inner.purpose, inner.words, separator) if inner else None
    if _INTERPRETERS.match(program) and len(rest) > 1 and rest[0] == "-m":
        program, rest = rest[1], rest[2:]
        purpose = _MODULES.get(program, "run")
        return Part(program, _first_plain(rest), purpose, (program, *rest), separator)
    subcommand = _first_plain(rest)
    if program in _TASK_RUNNERS and subcommand in ("run", "run-script") and len(rest) > 1:
        subcommand = _first_plain(rest[rest.index(subcommand) + 1 :]) or subcommand
    return Part(program, subcommand, _purpose(program, subcommand, rest), (program, *rest), separator)


def _script_of_shell(program: str, rest: list[str]) -> str | None:
    """Return what stands after the `-c` of `bash -c "…"`."""
    if program not in _SHELLS:
        return None
    for position, word in enumerate(rest[:-1]):
        if re.fullmatch(r"-[a-z]*c", word):
            return rest[position + 1]
    return None


def _unwrapped(words: list[str]) -> list[str]:
    while words:
        if _ASSIGNMENT.match(words[0]):
            words = words[1:]
        elif words[0] in _WRAPPERS:
            taken = _WRAPPERS[words[0]]
            words = words[1:]
            while words and words[0].startswith("-"):
                words = words[1:]
            words = words[taken:]
        elif len(words) > 2 and (PurePosixPath(words[0]).name, words[1]) in _WRAPPER_PAIRS:
            words = words[2:]
            while len(words) > 1 and words[0].startswith("-") and words[0] != "-m":
                words = words[1 + (words[0] in _WITH_VALUE) :]
            words = ["python", *words] if words and words[0] == "-m" else words
        else:
            break
    return words


def _first_plain(words: list[str]) -> str:
    return next((word for word in words if not word.startswith(("-", "+", "<", ">", "2>"))), "")


def _purpose(program: str, subcommand: str, rest: list[str]) -> Purpose:
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
    if program in ("cat", "echo", "printf") and any(word.startswith(">") for word in rest):
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
