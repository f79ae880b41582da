"""The exact things that call for a memory: a command, a file, an error, a tool, a word of the user's.

A memory's handles come from what it names, and from what its author says; what happens at a moment has handles too,
and the two are compared by equality, without embeddings. A handle is a text of a kind and a name:

- `command:git commit`, `command:pytest`: a program that many projects use, with its subcommand if it has any;
- `word:shipctl`, `word:the ledger`: a program or module of the project's own, an identifier, the code of an error, what
  is in quotation marks;
- `file:src/app.py`, `file:src`: a path from the project's folder, to a file or a folder;
- `error:…`: 32 hexadecimal digits for what an error says, without what is specific to one run;
- `tool:mcp__tracker__create_issue`: a tool of an MCP server.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import PurePosixPath

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.guard.rules import COMMANDS, table
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.text.tokens import STOP_WORDS, code_spans, is_path, paths_in, tokenize
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.failures import command_text, error_key, signature_of, signature_of_call
from swarm_memory.tools.trajectory.shell import CHECKS, Part, parse_command

MOST = 60
"""At most this many handles belong to one memory."""

MOST_AT_ONCE = 2_000
"""At most this many handles are looked up for one moment."""

MAX_NAMED_CHARS, MOST_LISTED = 120, 20

_MAX_CHARS, _MAX_WORDS, _MAX_ERRORS = 8_000, 3, 20
_LOOKS = frozenset({"search", "read", "print", "wait", "edit"})
"""Purposes of programs that everybody uses all the time: their names call for nothing."""

_QUOTED = re.compile(r"\"([^\"\n]{2,160})\"|\u201c([^\u201d\n]{2,160})\u201d")
_IDENTIFIER = re.compile(
    r"(?=.*[A-Za-z])(?:(?=\w+[_-]\w)\w+(?:-\w+)*|[a-z]+[A-Z]\w*|[A-Z]\w*[a-z][A-Z]\w*|[A-Z][A-Z0-9]{2,}|\w*[A-Za-z]-?\d{2,}\w*)"
)
_NAME = re.compile(r"(?<![\w/.-])(?:(?=\w+_\w)\w++|[a-z]+[A-Z]\w*)(?![\w/.-])")
"""An identifier that no word of prose looks like."""

_ERROR_CODE = re.compile(r"(?<![\w.-])[A-Z]{1,6}-?\d{1,5}(?![\w.-])")
"""The code by which a program numbers an error: in a note's backticks, and in the output of a failed call."""

_SUBCOMMAND = re.compile(r"[a-z][a-z0-9:_-]*")
_WORD = re.compile(r"(?<![.@/+-])[.@/+-]*\w+(?:[.@/+-]+\w+)*+")
_THROWN = re.compile(r"(\b\w*(?:Error|Exception)\b: )([^`\n\"]{3,160})")
_CUTS = (". ", "; ", ", ", ": ")
"""Where an error's message may end in a sentence that goes on."""
_MODULE = re.compile(r"^(?:E +)?(?:\w+\.)*(?=\w*(?:Error|Exception)\b)")
"""What a traceback, or pytest, puts before an exception's name."""

_SAYS_ERROR = re.compile(
    r"(?i)error|exception|fail|fatal|denied|not found|no such|cannot|can't|could not|unable|refused|rejected|invalid"
    r"|missing|must|required|unknown|not |usage"
)


def handles_of(item: MemoryItem) -> tuple[str, ...]:
    """Return the handles of a memory: those that it was given (`Provenance.handles`), then those that its texts name.

    A fix that rules found is called for only by its error, which the store knows.
    """
    own = item.provenance.handles
    if item.use == "strategy":
        when = [part for span in code_spans(item.description[:_MAX_CHARS]) for part in parse_command(span).parts]
        own = (*own, *_of_parts(filter(_may_run, when)), *_in_text(f"{item.title}\n{item.description}\n{item.content}"))
    return _first(MOST, own)


def listed_handles(item: MemoryItem) -> tuple[str, ...]:
    """Return the handles of a memory as they are shown: their names, each once, without errors, which are digests."""
    names = (each.partition(":")[2] for each in handles_of(item) if not each.startswith("error:"))
    return tuple(islice(dict.fromkeys(names), MOST_LISTED))


def named_handles(named: Iterable[str], calls: Iterable[Call] = (), *, by_hand: bool = False) -> tuple[str, ...]:
    """Return the handles of what somebody names explicitly: a command, a path, an error line, a tool, a word.

    `calls` are those of the task in which it is named. A plain word counts only if it is a program that they ran, or
    if a person names it, `by_hand`.
    """
    ran = {part.program.lower() for call in calls if call.command for part in call.command.parts}
    found: list[str] = []
    for text in named:
        text = " ".join(clean(text).strip(" `\"'").split())[:MAX_NAMED_CHARS]
        parts, count = parse_command(text).parts, len(text.split())
        if any(part.purpose != "other" or part.program.lower() in (ran or {part.program}) for part in parts[:1]):
            found += _of_parts(filter(_may_run, parts if count > 1 or text.lower() in ran else ()))
        found += _in_text(f"`{text}`")
        found += [_word(text)] if 1 < count <= _MAX_WORDS or (by_hand and count == 1) else []
    return _first(MOST_AT_ONCE, found)


_PROSE = STOP_WORDS | {"no", "not"}


def _may_run(part: Part) -> bool:
    """Whether a word in the place of a program may be one: it is neither a word of prose nor the code of an error."""
    return part.program not in _PROSE and not _ERROR_CODE.fullmatch(part.program)


def _first(most: int, handles: Iterable[str]) -> tuple[str, ...]:
    """Return at most this many of the handles, each once, and none for a word that is everywhere."""
    exact = (handle for handle in handles if (name := handle.partition(":")[2]) and name not in _PROSE)
    return tuple(islice(dict.fromkeys(exact), most))


def _in_text(text: str) -> Iterator[str]:
    text = clean(text[:_MAX_CHARS])
    yield from (handle for span in code_spans(text) for handle in _of_span(span))
    yield from (f"file:{path.rstrip('/')}" for path in paths_in(text))
    yield from map(_word, _NAME.findall(text))
    known = table(COMMANDS).words["subcommands"]
    for said, word, option in _SAID.findall(text):  # "git commit" in running text, too, but not "git history"
        if option or word in known or parse_command(said).purpose in CHECKS | {"install"}:
            yield f"command:{said}"
    quoted = [found[1] or found[2] for found in _QUOTED.finditer(text)]
    yield from (_word(each) for each in quoted if len(each.split()) <= _MAX_WORDS)
    yield from (handle for each in quoted for handle in _errors([each]))
    yield from _errors(
        name + each
        for name, said in _THROWN.findall(text)
        for each in (said, *(said.split(cut, 1)[0] for cut in _CUTS if cut in said))
    )


def _of_span(span: str) -> Iterator[str]:
    """Yield the handles of what is in backticks: a command, a tool, an identifier, an error."""
    if span.startswith("mcp__"):
        yield f"tool:{span.split()[0].lower()}"
    if _IDENTIFIER.fullmatch(span):
        yield _word(span)
    yield from map(_word, _ERROR_CODE.findall(span))
    for part in parse_command(span).parts:
        if part.purpose != "other" or any(word.startswith("-") for word in part.words[1:]):
            yield from _of_part(part)  # not for an unknown program without options: the span may be printed text
    if " " in span:
        yield from _errors([span])


def _of_parts(parts: Iterable[Part]) -> Iterator[str]:
    """Return the handles of a command line, whatever it looks like."""
    return (handle for part in parts for handle in _of_part(part))


def _of_part(part: Part) -> Iterator[str]:
    """Yield the handles of one simple command: none if everybody runs its program all the time."""
    if part.is_probe:  # `which parcelctl`, `parcelctl --help`
        yield from (_word(word) for word in (part.program, *part.words[1:]) if not word.startswith("-"))
    if part.purpose in _LOOKS or not _WORD.fullmatch(part.program):
        return
    program, has_verb = part.program.lower(), _SUBCOMMAND.fullmatch(part.subcommand) is not None
    if part.purpose == "other" or "." in part.program:  # not known, or a module: the project's own, mostly
        yield _word(program)
    if has_verb and (program in _RUNNERS or part.purpose not in CHECKS):
        yield f"command:{program} {part.subcommand}"
    elif part.purpose != "run":  # an interpreter: its script is a file
        yield f"command:{program}"


_RUNNERS = frozenset({"make", "npm", "pnpm", "yarn", "bun", "just", "task", "composer", "cargo", "go", "dotnet", "mix"})
"""Programs whose subcommand says what is checked."""

_FAMILIES = (_RUNNERS - {"make", "go", "task", "just"}) | {"git", "gh", "hg", "svn", "docker", "kubectl", "terraform"}
_SAID = re.compile(rf"(?<![\w@./-])((?:{'|'.join(_FAMILIES)}) ([a-z][\w:-]*+))(?![./]\w)( -)?")
"""A word behind a program whose name is no English word and that always comes with a subcommand."""


def at_call(tool: str, given: Mapping[str, object], root: str = "") -> tuple[str, ...]:
    """Return the handles of a tool's call before it runs; paths are taken from `root`, the project's folder."""
    command, name = command_text(tool, given), tool.lower()
    if command is not None:
        parts = parse_command(command[:_MAX_CHARS]).parts
        found = [*_of_parts(parts)]
        words = [word for part in parts for word in (*part.words, *part.outputs)]
        paths = [*words, *paths_in(command[:_MAX_CHARS])]
    else:
        found = [f"tool:{name}", _word(name.rpartition("__")[2])] if name.startswith("mcp__") else []
        paths = [value for key, value in given.items() if key.endswith(("path", "file")) and isinstance(value, str)]
    prefix = root.rstrip("/") + "/"
    for path in paths:  # of files of the project, and of the folders that they are in
        inside = path.removeprefix(prefix).removeprefix("./").rstrip("/")
        if inside and not inside.startswith(("/", "-", "..", "~")) and is_path(inside):
            found += [f"file:{each}" for each in (inside, *map(str, PurePosixPath(inside).parents)) if each != "."]
    return _first(MOST_AT_ONCE, found)


def at_failure(tool: str, given: Mapping[str, object], error: str) -> tuple[str, ...]:
    """Return the handles of a call that failed: of its error, of lines of its output, and of codes in it.

    A note may quote any line, whether it reads like an error or not, with or without the program before it.
    """
    own, text = signature_of_call(tool, given, error), clean(error[-_MAX_CHARS:])
    last = [_MODULE.sub("", line.strip()) for line in text.splitlines() if line.strip()][-_MAX_ERRORS:]
    lines = dict.fromkeys((*last, *(line.partition(": ")[2] for line in last), *_error_lines(text)))
    first = () if own is None else (f"error:{own.digest}",)
    return _first(MOST_AT_ONCE, (*first, *_errors(lines), *map(_word, _ERROR_CODE.findall(text))))


def at_prompt(prompt: str) -> dict[str, tuple[str, ...]]:
    """Return the handles of what a prompt names: commands, files, errors, runs of words; and, each with its tokens, of
    words that nothing marks: only the bank can tell whether one is a name."""
    text = clean(prompt[:_MAX_CHARS])
    words = [word.lower() for word in _WORD.findall(text)]
    runs = (" ".join(words[at - size : at]) for size in range(2, _MAX_WORDS + 1) for at in range(size, len(words) + 1))
    plain = {each: tokenize(each[5:]) for each in _first(MOST_AT_ONCE, (f"word:{word}" for word in words))}
    named = (*_in_text(text), *_errors(_error_lines(text)), *(f"word:{run}" for run in runs))
    return plain | dict.fromkeys(_first(MOST_AT_ONCE, named), ())


def from_task(title: str, when: str, text: str, calls: Iterable[Call]) -> tuple[str, ...]:
    """Return the handles that a note gets from the calls of the task that it was written in.

    They are those of each command that the note mentions: its program and subcommand are in the note, or the subcommand
    alone in its title or in `when`. And those of each error most of whose words are in the note.
    """
    every = frozenset(word.lower() for word in _WORD.findall(f"{title} {when} {text}"))
    first = frozenset(word.lower() for word in _WORD.findall(f"{title} {when}"))
    said = frozenset(tokenize(f"{title} {when} {text}"))
    found: list[str] = []
    for call in calls:
        for handle in _of_parts(call.command.parts) if call.command else ():
            words = handle.partition(":")[2].split()
            if every.issuperset(words) or (len(words) == 2 and words[1] in first):
                found.append(handle)
        for line in _error_lines(call.output) if call.failed else ():
            words = frozenset(tokenize(error_key(line)[1]))
            if len(words) >= _LEAST_WORDS and len(words & said) >= SPOKEN * len(words):
                found += _errors([line])
    return _first(MOST, found)


SPOKEN, _LEAST_WORDS = 0.7, 2
"""The share of an error's words (by stem, at least two) that a note must have to be about the error."""


def _error_lines(output: str) -> Iterator[str]:
    lines = (_MODULE.sub("", line.strip()) for line in clean(output[-_MAX_CHARS:]).splitlines())
    return (line for line in lines if _SAYS_ERROR.search(line))


def _errors(lines: Iterable[str]) -> Iterator[str]:
    """Yield the handles of lines that state an error: what they say, without quotations and what is of one run."""
    for line in islice((line for line in lines if 3 <= len(line) <= 400), 3 * _MAX_ERRORS):
        if signature_of("-", line) is not None:
            yield "error:" + hashlib.sha256("\0".join(error_key(line)).encode("utf-8", "replace")).hexdigest()[:32]


def _word(text: str) -> str:
    return "word:" + " ".join(_WORD.findall(text.lower()))[:MAX_NAMED_CHARS]
