"""What a failed call's output says: its key line, the kind of error, and what makes two failures the same error.

Times, durations, counts, folders, addresses, ports, ids, hashes and line numbers belong to one run only. A hook command
uses this module to read a failed call while an editor waits, so it imports nothing slow.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from swarm_memory.tools.guard.rules import FILE_NAME, MARKS
from swarm_memory.tools.text.cleaning import PLACEHOLDERS, clean
from swarm_memory.tools.trajectory.shell import parse_command


class Failure(NamedTuple):
    """The kind of one error."""

    kind: str
    """A tag: `missing-module`, `rate-limit`; `error` where nothing better is known."""
    subject: str
    """What it is about, as the error names it: a module, a command, an option; may be empty."""


_HTTP = r"\b(?:http|status|code|error|response|returned)[ /.:=#\"'(\[\d]{0,10}\b%d\b(?=\s*(?:$|[^\w\s]))"
"""An HTTP status that is marked as one by a word: a bare number may count anything."""

_KINDS: tuple[tuple[str, str], ...] = (
    ("unread-file", r"has not been read yet|read it first before|modified since read"),
    ("edit-mismatch", r"string to replace not found|found \d+ matches of the string|old_string"),
    ("unknown-skill", r"unknown (?:skill|slash command|tool):? ?(?P<x>[\w:-]+)?"),
    ("missing-module", r"no module named ['\"]?(?P<x>[\w.-]+)|cannot find (?:module|package) ['\"](?P<y>[^'\"]+)"),
    ("missing-command", r"(?:^|[\s:])(?P<x>[\w./-]+): (?:command )?not found"),
    ("wrong-folder", r"not a git repository|no (?:package\.json|makefile|cargo\.toml|pyproject)"
     r"|could not (?:find|read) .{0,60}(?:package\.json|pyproject\.toml|cargo\.toml|go\.mod)|enoent.*package\.json"
     r"|go\.mod file not found|no makefile found|no rule to make target|could not find `cargo"),
    ("service-down", r"connection refused|econnrefused|could not connect to|is the server running"
     r"|cannot connect to the docker daemon|failed to connect|connection reset"),
    ("port-in-use", r"address already in use|eaddrinuse|port \d+ is (?:already )?(?:in use|allocated)"),
    ("rate-limit", rf"rate.?limit|too many requests|{_HTTP % 429}"),
    ("not-logged-in", rf"not logged in|{_HTTP % 401}|unauthorized|authentication (?:failed|required)"
     r"|permission denied \(publickey|could not read username|gh auth login|invalid api key|bad credentials"
     r"|(?:locate|find|no|missing) (?:\w+ )?credentials"),
    ("missing-setting", r"(?:environment variable|env var) ['\"`]?(?P<x>[A-Z][A-Z0-9_]+)"
     r"|(?P<y>[A-Z][A-Z0-9]*_[A-Z0-9_]+)['\"`]? (?:is )?(?:not set|missing|required|must be set|unset|environment)"
     r"|keyerror: ['\"](?P<z>[A-Z][A-Z0-9_]{3,})['\"]"),
    ("permission", rf"permission denied|eacces|operation not permitted|read-only file system|forbidden|{_HTTP % 403}"),
    ("locked", r"could not get lock|index\.lock|database is locked|resource temporarily unavailable|is locked by"),
    ("wrong-branch", r"non-fast-forward|fetch first|merge conflict|conflict \(|your branch is behind|diverge"),
    ("bad-arguments", r"unrecognized arguments?:? ?(?P<x>[\w=-]+)?"
     r"|unknown (?:option|flag|argument):? ?['\"`]?(?P<y>[\w=-]+)?|no such option:? ?(?P<z>[\w=-]+)?"
     r"|invalid (?:option|choice|argument)|unexpected argument|illegal option|inputvalidationerror"
     r"|missing \d+ required|required (?:property|parameter|argument|field)|validation error"
     r"|flag provided but not defined"),
    ("timeout", r"timed? ?out|deadline exceeded"),
    ("disk-full", r"no space left|enospc|out of memory|oomkilled|heap out of memory"),
    ("network", r"could not resolve host|name or service not known|network is unreachable|getaddrinfo|\benotfound"),
    ("missing-file", r"no such file or directory|[\w/-]+\.[a-z]{2,5}['\"]?:? (?:was |is )?not found"
     r"|file (?:does )?not (?:exist|found)|enoent|filenotfounderror|file or directory not found|does not exist"),
    ("missing-table", r"no such table|relation .* does not exist|unknown column|no such column"),
    ("syntax", r"syntaxerror|syntax error|unexpected token|parse error|indentationerror"),
    ("types", r"error ts\d+|typeerror|incompatible type|type mismatch|cannot assign|mismatched types"),
    ("assertion", r"assertionerror|assert |expected .* (?:to|but)|tests? failed|\d+ failed|--- fail|failures"),
)  # fmt: skip
"""The first pattern found in an error decides its kind. Patterns are compiled on use: a hook has no time for all."""

BY_WORDS = frozenset({"error", "syntax", "types", "assertion", "missing-file", "bad-arguments"})
"""Kinds that each cover many different errors."""


@lru_cache(maxsize=1024)
def classify(error: str) -> Failure:
    """Return the kind of an error from its key line, ignoring the folders that it names."""
    error = _PATH.sub(_last_part, error)
    for kind, pattern in _KINDS:
        if found := re.search(pattern, error, re.IGNORECASE):
            return Failure(kind, next((part for part in found.groups() if part), "").strip(".:,'\"`"))
    return Failure("error", "")


SHOWS_TEXT = frozenset({"print", "search", "read", "wait"})
"""Purposes of commands whose output is requested text: an error in that text is not their own."""

EXIT_CODE = re.compile(r"(?im)^\W{0,2}(?:(?:command )?exit(?:ed with)? (?:code|status)|return ?code)\W{1,3}(\d{1,3})\b")
_COMMAND_KEYS = ("command", "cmd", "script", "shell_command", "keystrokes", "bash_command")
_SHELL_TOOL = re.compile(r"(?i)(?:bash|(?:power)?shell|sh|terminal|cmd|run_(?:shell_)?command|exec(?:ute)?(?:_\w+)?)$")

_KEY_LINES = tuple(map(re.compile, (
    r"^FAILED \S+ - (\w+(?:Error|Exception)\b.*)$",
    r"^\s*((?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)\b(?::.*)?)$",
    r"(?i)^E\s+(.*(?:error|exception|assert).*)$",
    r"(?i)^(.*\b(?:command not found|no such file or directory|permission denied|not found|already in use).*)$",
    r"^\S+:\d+:\d+:?\s+([A-Z]{1,6}\d{2,5}\b.*)$",
    r"(?i)^\s*((?:npm )?(?:fatal|error|err!|panic|failed|invalid|unknown)\b.*)$",
    r"(?i)^(?!(?:def|class|except|raise|import|from|with|if|elif|return|assert|print|case)\b|\W*\d+ *[│|]|.*:$)"
    r"(.*\berror\b.*)$",
    r"(?i)^\W{0,6}(.*\b(?:fail(?:s|ed)? to|unable to|refused|could not|did not|does not|cannot|must)\b.*)$",
)))  # fmt: skip
_LAST_WINS = 1
"""Index of the traceback pattern, whose last match counts; of the others the first. The surest pattern comes first."""

_OBJECT = re.compile(r"\s*(?:\{|\w*(?:Result|Response)\()")
_MESSAGES = tuple(
    re.compile(rf"(?i)(?<!\w)[\"']?(?:{names})[\"']?\s*[:=]\s*(\"(?:[^\"\\]|\\.)+\"|'(?:[^'\\]|\\.)+')")
    for names in ("errors?|exception", "message|detail|reason", "text")
)
"""How JSON or a printed result names its error, the surest pattern first."""

_ESCAPED = re.compile(r"\\[nrt]|\\(?=[\"'])")
_ANSWERED = re.compile(r"(?i)\? \W?(?:y|n|yes|no)\W?$")
"""A program's yes/no question with the answer it was given."""

_MAX_ERROR, _MAX_LINE, _MAX_OUTPUT, _MAX_MESSAGE = 200, 400, 8000, 160
_VERSION = re.compile(r"(?<=[a-z])[\d.]+(?=\s|$)")
"""The version in a program's name, such as `python3.11`."""

_OF_INSIDE = re.compile(
    r"(?i)non-?zero exit|could not compile|to rerun pass|previous errors?\b|build (?:failed|failure)|command failed"
    r"|\bexit(?:ed)?(?: with)? (?:code|status)|errors? (?:were )?found|waiting for other jobs|\bfailures?=\d"
    r"|complete log of this run|tests? failed\b|failed tests?\b|^\W*(?:found )?\d+ (?:failed|errors?|problems?)\b"
)
"""A line that only says that something inside failed: the error itself is on another line."""

_ADDRESS = re.compile(
    rf"{MARKS}|<(?:{PLACEHOLDERS})>(?=$|[^/\\])"
    r"|\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s\"'`)>\]]+|[\w.+-]+@[\w.<>-]+"
)
_PATH = re.compile(
    r"(?:[A-Za-z]:|~|<path>|(?<![\w.])\.{1,2})?(?:[\w.+@~-]+)?(?:[\\/][\w.+@~-]+)+[\\/]?|(?<!\S)[\\/](?!\S)"
)
_CODE = re.compile(
    r"(?i:\b(?:http(?:/[\d.]+)?|status(?: code)?)[ :]+)[45]\d\d\b"
    r"|(?i:\b(?:error|warning|code|sqlstate)[ :\[]+)(?:[A-Z]{1,6}-?\d{2,5}|\d{2}[A-Z]\d{2})\b"
    r"|\b[A-Z]{1,6}-?\d{2,5}(?=[:\]])"
)
_LETTERS = str.maketrans("0123456789", "ghijklmnop")
"""Disguises the digits of a program's error codes (`_CODE`) as letters, so that they are kept."""

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_WORD = re.compile(r"\w+(?:-\d+)?")
_OF_ONE_RUN = re.compile(r"(?i).*\d|[0-9a-f]{12,}$|\w{40,}")
_RUN = re.compile(r"#(?:[\s.,:;/+_-]*#)+")
_COUNTED = re.compile(
    r"# ?(?:m?s(?:ecs?)?|(?:milli)?seconds?|m(?:in(?:ute)?s?)?|h(?:ours?)?|days?|[kmg]i?b|bytes?|%)(?!\w)"
)
_PLURAL = re.compile(r"(?<=# )([a-z]{3,})s\b")
_WORDS = re.compile(r"[a-z_][a-z_.+-]*[a-z]")
_SAYS_NOTHING = frozenset(
    """
    failed failure failures failing fail fails passed pass passing error errors err exit exited exiting code codes
    status returned non zero nonzero with test tests suite suites total in of the a an and or is was were to for at on
    it its see above below more details command commands process finished completed run running ran build exception
    traceback most recent call last assert assertion expected actual received but got npm yarn pnpm lifecycle elifecycle
    errno make recipe target makefile warning warnings problem problems found line column col row position file files no
    not such directory does exist fatal unknown abort aborting aborted invalid syntax unexpected token eof indent
    unindent true false none null undefined nan after before from by could be has have been due this that there enoent
    open stat access cannot cant unable path string int str
    """.split()  # noqa: SIM905 - a paragraph of words reads better than a list of strings
)
"""Words that any error may contain."""

_ABOUT_A_FILE = frozenset({"missing-file", "wrong-folder", "permission", "missing-module", "missing-command"})
"""Kinds whose errors are told apart by the name of a file."""


class Signature(NamedTuple):
    """What stays the same when the same error occurs again."""

    program: str
    """The command's name (`Command.name`) or the tool's, in lower case and without a version."""
    kind: str
    """The kind of error, as `classify` returns it."""
    message: str
    """What the error is about; `#` replaces what belongs to one run only."""

    @property
    def digest(self) -> str:
        """32 hexadecimal digits that reveal nothing about the error itself."""
        import hashlib

        return hashlib.sha256("\0".join(self).encode("utf-8", "replace")).hexdigest()[:32]


def signature_of_call(tool: str, given: Mapping[str, object], output: str) -> Signature | None:
    """Return the signature of a failed call from its tool, input and output; None when the output says nothing.

    It is the same whether the call comes from a hook or from a transcript.
    """
    text = command_text(tool, given)
    return signature_of(parse_command(text).name if text else tool, key_line(clean(output)))


def signature_of(program: str, line: str) -> Signature | None:
    """Return the signature of a program's or tool's error from its key line; None when the line says nothing.

    An exit code alone, an empty line or the summary of a test run is not an error that could be recognized again.
    """
    name = _VERSION.sub("", program.strip().lower())
    if not name or not line or _OF_INSIDE.search(line):
        return None
    failure = classify(line[:_MAX_ERROR])
    if failure.subject and failure.kind not in BY_WORDS:
        subject = _of_no_run(failure.subject, keep_file=True)
        if _WORDS.search(subject):
            return Signature(name, failure.kind, subject)
    message = _of_no_run(line, keep_file=failure.kind in _ABOUT_A_FILE)
    words = set(_WORDS.findall(message)) - _SAYS_NOTHING - {name}
    own = {word for word in words if not word.endswith(("error", "exception", "warning"))}
    says_enough = len(own) > (failure.kind in BY_WORDS) or any("." in word for word in own)
    return Signature(name, failure.kind, message) if says_enough else None


def _of_no_run(line: str, *, keep_file: bool) -> str:
    """Return a line in lower case with `#` for what belongs to one run, cut at a word to at most 160 characters."""
    text = _CODE.sub(lambda match: match[0].translate(_LETTERS), line)
    text = _ADDRESS.sub("#", text)
    text = _PATH.sub(_file_name if keep_file else "#", text)
    text = _WORD.sub(lambda match: "#" if _OF_ONE_RUN.match(match[0]) else match[0], text)
    text = _PLURAL.sub(r"\1", _COUNTED.sub("#", _RUN.sub("#", text.lower())))
    text = " ".join(_RUN.sub("#", text).split()).strip(" .,:;!-")
    return text if len(text) <= _MAX_MESSAGE else text[: text.rfind(" ", 0, _MAX_MESSAGE)].rstrip()


def _last_part(path: re.Match[str]) -> str:
    """Return a path's last part: its folders say nothing about the error, as in `/srv/timeout/a.db`."""
    return path[0].replace("\\", "/").rstrip("/").rpartition("/")[2]


def _file_name(path: re.Match[str]) -> str:
    return name if FILE_NAME.fullmatch(name := _last_part(path)) else "#"


def command_text(tool: str | None, given: Mapping[str, object], said: str = "") -> str | None:
    """Return the command line that a call runs; None for any other kind of tool. `said` is the call's own text.

    A single word next to a path argument is an editor's action, such as `view`.
    """
    text = next((value for key in _COMMAND_KEYS if isinstance(value := given.get(key), str)), None)
    if text is not None and text.isidentifier() and ("path" in given or "file_path" in given):
        return None
    if text is None and _SHELL_TOOL.match(tool or ""):
        return next((value for value in given.values() if isinstance(value, str)), said)
    return said if text is None and not tool and not given else text


def error_line(output: str) -> str:
    """Return the key line of an error output, such as the last line of a traceback, at most 200 characters."""
    return key_line(output)[:_MAX_ERROR]


def key_line(output: str) -> str:
    """Return the key line, at most 400 characters; for JSON or a printed result, the key line of its message."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|</?tool_use_error>", "", output[-_MAX_OUTPUT:])
    is_object = _OBJECT.match(output) is not None
    if is_object:
        said = (pattern.search(output[:_MAX_OUTPUT]) for pattern in _MESSAGES)
        message = next((match[1][1:-1] for match in said if match), "")
        text, is_object = _ESCAPED.sub("\n", message or text.replace('"', "\n")), not message
    lines = [line.strip()[:_MAX_LINE] for line in text.splitlines() if line.strip()]
    for number, pattern in enumerate(_KEY_LINES):
        found = [match.group(1) for line in lines if (match := pattern.match(line))]
        if found:
            return found[-1 if number == _LAST_WINS else 0].strip()
    plain = [line for line in lines if not EXIT_CODE.match(line) and not _ANSWERED.search(line)]
    return plain[-1] if plain and not is_object else ""


def error_key(line: str) -> tuple[str, str]:
    """Return a key that is equal when a call fails again in the same way: the kind, and the masked line or the subject.

    Quoted text may differ, since it is what the call was given. Outside `BY_WORDS`, kind and subject are enough.
    """
    kind, subject = classify(line)
    return kind, _of_no_run(_QUOTED.sub("#", line), keep_file=False) if kind in BY_WORDS else subject
