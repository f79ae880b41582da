"""What a shell command is for, read from its text alone."""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

Purpose = Literal["test", "build", "lint", "install", "run", "search", "read", "print", "edit", "vcs", "wait", "other"]

CHECKS: frozenset[Purpose] = frozenset({"test", "build", "lint"})
"""Purposes whose result says whether the work is right."""

_MAX_COMMAND_CHARS = 20_000
_PROGRAMS: dict[Purpose, str] = {
    "test": "pytest tox jest vitest mocha ava jasmine karma rspec phpunit ctest trial unittest doctest",
    "build": "make cmake ninja gcc g++ cc clang clang++ javac rustc tsc vite webpack rollup esbuild bazel xcodebuild"
    " mix py_compile cargo:check dotnet:publish",
    "lint": "ruff mypy pyright flake8 pylint black isort eslint prettier biome clippy golangci-lint rubocop shellcheck"
    " phpstan pre-commit standard ruff:check cargo:clippy go:vet manage.py:check poetry:check",
    "install": "pip pip3 apt apt-get brew apk yum dnf gem conda venv go:get uv:sync uv:pip uv:lock mix:deps.get"
    " dotnet:restore",
    "search": "grep rg egrep fgrep ack find fd locate which command type hash whereis diff cmp test [ [[ pgrep lsof"
    " search_dir search_file find_file",
    "read": "cat head tail less more ls tree wc file stat du df nl ps pwd open date whoami uname hostname jq yq sort"
    " uniq cut awk column xxd id top history man strings journalctl env printenv true false goto scroll_up scroll_down",
    "print": "echo printf yes seq banner",
    "edit": "sed mkdir touch cp mv rm rmdir ln chmod chown tee patch truncate dd perl install tar unzip zip apply_patch"
    " create edit insert",
    "vcs": "git gh hg svn glab",
    "wait": "sleep wait",
}
_PURPOSES: dict[str, Purpose] = {name: purpose for purpose, names in _PROGRAMS.items() for name in names.split()}
"""Purposes by program, or by program and subcommand where they differ from `_BY_TARGET`."""

_SCRIPT_RUNNERS = frozenset({"npm", "pnpm", "yarn", "bun", "deno", "just", "task", "composer", "make"})
_RUNNERS = _SCRIPT_RUNNERS | frozenset({
    "go", "cargo", "dotnet", "swift", "zig", "mix", "docker", "uv", "poetry", "next", "vite", "helm", "terraform",
    "ruff", "manage.py", "playwright", "forge",
})  # fmt: skip
"""Programs whose first argument says what they do."""

_BY_TARGET: tuple[tuple[re.Pattern[str], Purpose], ...] = (
    (re.compile(r"(^|[:_-])((nex)?tests?|spec|e2e|unit|integration|check|ci|verify)($|[:_-])|[a-z]Test$"), "test"),
    (re.compile(r"(^|[:_-])(lint|format|fmt|types?|typecheck|tsc|eslint|prettier|mypy|ruff)($|[:_-])"), "lint"),
    (re.compile(r"(^|[:_-])(build|compile|bundle|dist|all)($|[:_-])"), "build"),
    (re.compile(r"^(i|ci|install|add|remove|uninstall|update|upgrade)$"), "install"),
)
_LAUNCHER = re.compile(
    r"(?:sudo|time|nohup|env|command(?! -[vV])|exec|nice|npx|timeout|stdbuf|then|do|else|if|elif|while|until"
    r"|(?:\S*/)?(?:(?:uv|poetry|pipenv|hatch|pdm|rye|conda|coverage) run|(?:bundle|npm|yarn|pnpm) exec"
    r"|(?:pnpm|yarn) dlx|cargo \+nightly))(?= |$)"
)
"""Wrappers, written before the command that they run."""

_DURATION = re.compile(r"[\d.]+[smhd]?")
_WITH_VALUE = re.compile(
    r"-[ugCskn]|--(?:name|prefix|extra|group|with|python|env|project|directory|package|env-file|cwd)"
)
"""Options of these wrappers that take a value."""

_VALUED = {
    "git": "-C -c --git-dir --work-tree", "make": "-C -f -I", "go": "-C", "just": "-f -d", "task": "-t -d",
    "npm": "--prefix -w --workspace", "pnpm": "-C --dir -F --filter", "yarn": "--cwd", "bun": "--cwd",
    "uv": "--directory --project", "poetry": "-C -P", "kubectl": "-n --namespace --context", "helm": "-n --namespace",
    "python": "-W -X", "node": "-r --require --import",
}  # fmt: skip
"""By program, options before a subcommand or script that take a value."""

INTERPRETERS = re.compile(r"^(python[\d.]*|pypy\d*|node|ruby|php|bash|sh|zsh|tsx|ts-node|Rscript|julia|java|lua)$")
_TEST_FILE = re.compile(r"(^|/)(run_?tests?|tests?|test_[\w-]+|[\w-]+_test|runtests|[\w-]+[._](test|spec))(\.\w+)?$")
_SCRIPT_FILE = re.compile(r"\.\w{1,5}$")
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")
_SHELL_SCRIPT = re.compile(r"-[a-z]*c")
"""The option of a shell that is followed by a command line: `bash -lc "…"`."""

_CONTROL = re.compile(r"cd|pushd|popd|export|set|source|\.|unset|ulimit|umask|for|select|case|fi|done|esac|function")
"""First words of commands that run no program of their own."""

_SHOWS_OTHERS = frozenset({"show", "log", "blame", "grep", "cat-file", "pr", "issue", "api", "run"})
_BRINGS_FILES = re.compile(r"stash|checkout|switch|restore|reset|apply|revert|merge|pull|rebase")
_WRITING_SCRIPT = re.compile(r"\.write(?:_text|_bytes|lines)?\(|writeFile|open\([^)\n]*,\s*(?:mode=)?['\"][wax]")
_PROBING_PROGRAMS = frozenset({"which", "command", "type", "test", "[", "[[", "hash", "whereis"})
_TOKEN = re.compile(
    r"(?P<blank>[^\S\n]+|\\\n|(?<![^\s;&|()])\#[^\n]*|\d*[<>]&[\d-]+)"
    r"|(?P<end>&&|\|\||;;?&?|\|&|&(?!>)|\||\n)"
    r"|(?P<open>(?:[$<>]|(?<==))\()|(?P<parenthesis>[()])"
    r"|(?P<redirect>(?:(?<![^\s;&|()])\d+)?(?:&>>?|<<<|<<-?|<>|<&|>&|>>|>\||<|>))"
    r"|\$?'(?P<single>[^']*)'|\"(?P<double>(?:[^\"\\]|\\.)*+)\"|\\(?P<escaped>.)"
    r"|(?P<plain>`[^`]*`|[^\s'\"\\$`#;&|<>()]+|.)",
    re.S,
)


class Part(NamedTuple):
    """One simple command of a command line."""

    program: str
    """Base name, without wrappers; `python -m pytest` is `pytest`."""
    subcommand: str
    """The first argument that is not an option; for a task runner the script's name; may be empty."""
    purpose: Purpose
    words: tuple[str, ...]
    joined_by: str
    """The separator that follows it: `&&`, `||`, `;`, `|` or empty for the last."""
    outputs: tuple[str, ...] = ()
    """The files that its standard output is redirected to."""

    @property
    def is_probe(self) -> bool:
        """Whether it only asks what exists or how a program is used: a "no" or a usage text is then an answer."""
        return self.program in _PROBING_PROGRAMS or _asks_for_help(self.words)

    @property
    def is_inline(self) -> bool:
        """Whether an interpreter runs code from the command line itself: `python -c …`, `python - <<END`."""
        given = self.words[1:2]
        return bool(INTERPRETERS.match(self.program)) and (not given or given[0] in ("-", "-c", "-e"))

    @property
    def name(self) -> str:
        """A short name for what it runs, such as `npm test` or `pytest`."""
        if self.program in _RUNNERS or self.purpose == "vcs":
            return f"{self.program} {self.subcommand}".strip()
        if INTERPRETERS.match(self.program) and _SCRIPT_FILE.search(self.subcommand):
            return f"{self.program} {PurePosixPath(self.subcommand).name}"
        return self.program

    @property
    def prints_others(self) -> bool:
        """Whether it may print what somebody else wrote; a diff is taken as the agent's own work."""
        if self.purpose == "vcs":
            return self.subcommand in _SHOWS_OTHERS and "--oneline" not in self.words
        if self.purpose == "print":
            return any(mark in word for word in self.words for mark in ("$(", "`"))
        return self.purpose in ("read", "search", "other")


class Command(NamedTuple):
    """A command line: its simple commands, and the main one among them."""

    text: str
    parts: tuple[Part, ...]

    @property
    def main(self) -> Part | None:
        """The part that a reader would name the line after: a check if any, else what does more than look or print."""
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
        """The last part that tests, builds or lints; else the last that runs a program, whose output may show a check.

        None when there is neither; code in the command line itself does not count.
        """
        found = [part for part in self.parts if part.purpose in CHECKS | {"run", "other"} and not part.is_inline]
        return max(reversed(found), key=lambda part: part.purpose in CHECKS, default=None)

    def exit_code_is_of(self, part: Part) -> bool:
        """Whether exit code 0 of the line is also that of `part`: not when a `|`, `||`, `;` or `&` comes after it."""
        return all(each.joined_by in ("&&", "") for each in self.parts[self._place(part) :])

    def code_of(self, part: Part, output: str, failed: bool | None) -> bool | None:
        """Return whether `part` failed; None when nothing shows it. `failed` was reported for the whole line.

        `part; echo rc=$?` prints the exit code of `part`.
        """
        place = self._place(part)
        following = self.parts[place + 1] if place + 1 < len(self.parts) else None
        if part.joined_by == ";" and following and following.program == "echo" and "$?" in following.words[-1]:
            printed = re.escape(" ".join(following.words[1:])).replace(re.escape("$?"), r"(\d{1,3})")
            codes = re.findall(rf"(?m)^{printed}\s*$", output)
            return bool(int(codes[-1])) if codes else None
        return failed if self.exit_code_is_of(part) else None

    def prints_others(self, part: Part) -> bool:
        """Whether a part other than `part` may print what somebody else wrote; parts that take a pipe do not count."""
        piped = [False, *(each.joined_by == "|" for each in self.parts)]
        place = self._place(part)
        return any(each.prints_others and not piped[at] for at, each in enumerate(self.parts) if at != place)

    def is_before_and_after(self, part: Part) -> bool:
        """Whether the line runs something before its changes, or with them stashed, and then `part` with them."""
        runs = [at for at, each in enumerate(self.parts) if each.purpose in CHECKS | {"run"} and not each.is_inline]
        changed = [at for at, each in enumerate(self.parts[: self._place(part)]) if self.changes(each)]
        return bool(changed) and (min(runs, default=len(self.parts)) < changed[0] or self.puts_away)

    @property
    def puts_away(self) -> bool:
        """Whether changes are set aside with `git stash`."""
        return any(part.program == "git" and part.subcommand == "stash" for part in self.parts)

    def changes_after(self, part: Part) -> bool:
        """Whether something is changed after `part`; a part that takes piped output, such as `tee`, does not count."""
        behind = self.parts[self._place(part) :]
        return any(self.changes(each) for before, each in pairwise(behind) if before.joined_by != "|")

    def changes(self, part: Part) -> bool:
        """Whether a part of the line writes a file, or brings in another state of the files, as `git checkout` does."""
        if part.is_inline:
            return _WRITING_SCRIPT.search(self.text) is not None
        brings = part.purpose == "vcs" and _BRINGS_FILES.fullmatch(part.subcommand) is not None
        return part.purpose == "edit" or brings

    def _place(self, part: Part) -> int:
        """Return the index of `part`; of two equal parts the last counts."""
        return len(self.parts) - 1 - self.parts[::-1].index(part)

    @property
    def name(self) -> str:
        """A short name for what it runs, such as `npm test` or `pytest`; empty for an empty line."""
        return self.main.name if self.main else ""


@lru_cache(maxsize=512)
def parse_command(text: str) -> Command:
    """Parse a command line. It never fails: text that a shell could not parse is split at whitespace."""
    parts = [part for found in _commands(text[:_MAX_COMMAND_CHARS]) for part in _parts(*found)]
    if parts:
        parts[-1] = parts[-1]._replace(joined_by="")
    return Command(text, tuple(parts))


def _commands(text: str) -> Iterator[tuple[list[str], tuple[str, ...], str]]:
    """Yield for each simple command its words, the files that its output goes to, and the separator that follows."""
    words, outputs, redirect = list[str](), list[str](), ""
    for kind, said in (*_tokens(text), ("end", "")):
        if kind == "end":
            yield words, tuple(outputs), ";" if said == "\n" else said
            words, outputs = [], []
        elif kind == "word" and not redirect:
            words.append(said)
        elif kind == "word" and ">" in redirect and redirect[0] in ">&<1" and not said.startswith(("/dev/", ">(")):
            outputs.append(said)
        redirect = said if kind == "redirect" else ""


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield unquoted words, redirections and separators; a quote or `$(` that is never closed is taken literally."""
    pieces, documents, before = list[str](), list[str](), ""
    at = depth = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        assert found is not None  # the last alternative takes any character
        at, kind, said = found.end(), found.lastgroup or "", found[0]
        if depth or kind == "open":  # what is in `$(…)`, or in the parentheses of an array, stays part of its word
            depth += (kind == "open" or said == "(") - (said == ")")
            pieces.append(said)
        elif kind in ("single", "double", "escaped", "plain"):
            pieces.append(re.sub(r"\\([$`\"\\])|\\\n", r"\1", found[kind]) if kind == "double" else found[kind])
        else:
            if pieces:
                yield "word", (word := "".join(pieces))
                if before in ("<<", "<<-") and not word[:1].isdigit():
                    documents.append(word)
                pieces, before = [], ""
            if kind != "blank":
                yield kind, (before := said)
            for document in documents if said == "\n" else ():  # here-documents are left out
                end = re.compile(rf"^[^\S\n]*{re.escape(document)}[^\S\n]*$", re.M).search(text, at)
                at = end.end() if end else len(text)
            documents = [] if said == "\n" else documents
    if pieces:
        yield "word", "".join(pieces)


def _parts(words: list[str], outputs: tuple[str, ...], separator: str) -> tuple[Part, ...]:
    words = _unwrapped([word for word in words if word not in ("{", "}", "!")])
    if not words or _CONTROL.fullmatch(words[0]):
        return (Part(":", "", "edit", (":",), separator, outputs),) if outputs else ()
    plain, *rest = words
    name = PurePosixPath(plain.strip("()`$\"'")).name or plain
    program = plain if name == "test" else name  # `bin/test` runs a suite
    option = next((at for at, word in enumerate(rest[:-1]) if _SHELL_SCRIPT.fullmatch(word)), None)
    if program in ("bash", "sh", "zsh", "dash") and option is not None:
        *before, last = parse_command(rest[option + 1]).parts or (None,)
        return (*before, last._replace(joined_by=separator, outputs=last.outputs + outputs)) if last else ()
    is_module = INTERPRETERS.match(program) is not None and len(rest) > 1 and rest[0] == "-m"
    if is_module:
        program, rest = rest[1], rest[2:]
    subcommand = _first_plain(program, rest)
    if program in _SCRIPT_RUNNERS and subcommand in ("run", "run-script"):
        subcommand = _first_plain(program, rest[rest.index(subcommand) + 1 :]) or subcommand
    purpose = _purpose(program, subcommand, rest, writes=bool(outputs))
    purpose = "run" if is_module and purpose == "other" else purpose
    return (Part(program, subcommand, purpose, (program, *rest), separator, outputs),)


def _unwrapped(words: list[str]) -> list[str]:
    """Return a simple command without assignments and without wrappers, their options and time limits."""
    while words:
        if _ASSIGNMENT.match(words[0]):
            words = words[1:]
        elif launcher := _LAUNCHER.match(" ".join(words[:2])):
            words = words[1 + launcher[0].count(" ") :]
            while words and words[0] != "-m" and (words[0].startswith("-") or _DURATION.fullmatch(words[0])):
                words = words[2 if _WITH_VALUE.fullmatch(words[0]) else 1 :]
            words = ["python", *words] if words[:1] == ["-m"] else words
        else:
            break
    return words


def _first_plain(program: str, words: list[str]) -> str:
    """Return the first word that is neither an option nor its value, as the 4 in `make -j 4 test` is."""
    valued = _VALUED.get(program.rstrip("0123456789."), "").split()
    for before, word in pairwise(("", *words)):
        is_value = before in valued or (before[:1] == "-" and word.isdigit())
        if not (is_value or word.startswith(("-", "+"))):
            return word
    return ""


def _asks_for_help(words: tuple[str, ...]) -> bool:
    """Whether a program is only called to print its usage or its version."""
    program, rest = words[0], words[1:]
    has_short = INTERPRETERS.match(program) is not None or program in _RUNNERS
    is_short = (rest[-1:] == ("-h",) and len(rest) <= 2) or (has_short and rest in (("-v",), ("-V",)))
    return is_short or "--help" in rest or rest[:1] == ("help",) or rest in (("--version",), ("version",))


def _purpose(program: str, subcommand: str, rest: list[str], *, writes: bool) -> Purpose:
    if _asks_for_help((program, *rest)):
        return "read"
    if known := _PURPOSES.get(f"{program}:{subcommand}"):
        return known
    if program in ("mvn", "mvnw", "gradle", "gradlew"):
        return "test" if any(map(_BY_TARGET[0][0].search, rest)) else "build"
    if program in _RUNNERS:
        for pattern, purpose in _BY_TARGET:
            if pattern.search(subcommand):
                return purpose
        return _PURPOSES.get(program, "run")
    if program in ("cat", "echo", "printf") and writes:
        return "edit"
    if program == "sed" and not any(word.startswith(("-i", "--in-place")) for word in rest):
        return "read"
    if program in _PURPOSES:
        return _PURPOSES[program]
    is_script = INTERPRETERS.match(program) is not None
    if _TEST_FILE.search(subcommand if is_script else program) or rest[:2] == ["manage.py", "test"]:
        return "test"
    return "run" if is_script or "/" in program else "other"
