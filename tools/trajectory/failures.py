"""Kinds of errors, told from one line of output: what was missing, and what to look at first."""

import re
from functools import lru_cache
from typing import NamedTuple


class Failure(NamedTuple):
    """The kind of one error."""

    kind: str
    """A tag: `missing-module`, `rate-limit`; `error` where nothing better is known."""
    subject: str
    """What it is about, as the error names it: a module, a command, an option; may be empty."""
    first: str
    """What should have been looked at first, as an imperative clause; empty where the kind tells nothing."""
    value: float
    """How much a note about it is worth: 0.1 for a slip that everyone mends at once, 0.9 for a hidden prerequisite."""


class _Kind(NamedTuple):
    kind: str
    pattern: str
    """Compiled when it is first needed: a hook command has no time for all of them."""
    first: str
    value: float


def _status(code: int) -> str:
    """Return a pattern of a status of HTTP that is told as one: a bare number may count anything."""
    return rf"\b(?:http|status|code|error|response|returned)[ /.:=#\"'(\[\d]{{0,10}}\b{code}\b(?=\s*(?:$|[^\w\s]))"


_KINDS: tuple[_Kind, ...] = (
    _Kind("unread-file", r"has not been read yet|read it first before|modified since read",
          "read a file before editing", 0.1),
    _Kind("edit-mismatch", r"string to replace not found|found \d+ matches of the string|old_string", "", 0.15),
    _Kind("unknown-skill", r"unknown (?:skill|slash command|tool):? ?(?P<x>[\w:-]+)?",
          "look at the list of what is there before calling {x}", 0.3),
    _Kind("missing-module", r"no module named ['\"]?(?P<x>[\w.-]+)", "check that the module {x} can be imported", 0.8),
    _Kind("missing-module", r"cannot find (?:module|package) ['\"](?P<x>[^'\"]+)", "check that {x} is installed", 0.8),
    _Kind("missing-command", r"(?:^|[\s:])(?P<x>[\w./-]+): (?:command )?not found",
          "check that {x} is installed", 0.75),
    _Kind("wrong-folder", r"not a git repository|no (?:package\.json|makefile|cargo\.toml|pyproject)"
          r"|could not (?:find|read) .{0,60}(?:package\.json|pyproject\.toml|cargo\.toml|go\.mod)"
          r"|enoent.*package\.json|go\.mod file not found"
          r"|no makefile found|no rule to make target|could not find `cargo",
          "change to the folder that holds the project file", 0.6),
    _Kind("service-down", r"connection refused|econnrefused|could not connect to|is the server running"
          r"|cannot connect to the docker daemon|failed to connect|connection reset",
          "check that the service it talks to is running", 0.8),
    _Kind("port-in-use", r"address already in use|eaddrinuse|port \d+ is (?:already )?(?:in use|allocated)",
          "check that the port is free", 0.75),
    _Kind("rate-limit", rf"rate.?limit|too many requests|{_status(429)}", "wait and call less often", 0.7),
    _Kind("not-logged-in", rf"not logged in|{_status(401)}|unauthorized|authentication (?:failed|required)"
          r"|permission denied \(publickey|could not read username|gh auth login|invalid api key|bad credentials"
          r"|(?:locate|find|no|missing) (?:\w+ )?credentials",
          "check that you are logged in", 0.8),
    _Kind("missing-setting", r"(?:environment variable|env var) ['\"`]?(?P<x>[A-Z][A-Z0-9_]+)"
          r"|(?P<y>[A-Z][A-Z0-9]*_[A-Z0-9_]+)['\"`]? (?:is )?(?:not set|missing|required|must be set|unset|environment)"
          r"|keyerror: ['\"](?P<z>[A-Z][A-Z0-9_]{3,})['\"]",
          "check that {x} is set", 0.85),
    _Kind("permission", r"permission denied|eacces|operation not permitted|read-only file system|forbidden"
          rf"|{_status(403)}",
          "check the permissions", 0.6),
    _Kind("locked", r"could not get lock|index\.lock|database is locked|resource temporarily unavailable|is locked by",
          "check that no other process holds the lock", 0.65),
    _Kind("wrong-branch", r"non-fast-forward|fetch first|merge conflict|conflict \(|your branch is behind|diverge",
          "bring the branch up to date", 0.6),
    _Kind("bad-arguments", r"unrecognized arguments?:? ?(?P<x>[\w=-]+)?"
          r"|unknown (?:option|flag|argument):? ?['\"`]?(?P<y>[\w=-]+)?|no such option:? ?(?P<z>[\w=-]+)?"
          r"|invalid (?:option|choice|argument)|unexpected argument|illegal option"
          r"|inputvalidationerror|missing \d+ required|required (?:property|parameter|argument|field)|validation error"
          r"|flag provided but not defined",
          "look at the options that it takes", 0.65),
    _Kind("timeout", r"timed? ?out|deadline exceeded", "", 0.5),
    _Kind("disk-full", r"no space left|enospc|out of memory|oomkilled|heap out of memory",
          "check the room that is left", 0.7),
    _Kind("network", r"could not resolve host|name or service not known|network is unreachable|getaddrinfo|\benotfound",
          "check that the network can be reached", 0.6),
    _Kind("missing-file", r"no such file or directory|[\w/-]+\.[a-z]{2,5}['\"]?:? (?:was |is )?not found"
          r"|file (?:does )?not (?:exist|found)|enoent|filenotfounderror"
          r"|file or directory not found|does not exist",
          "list the folder to see what is there", 0.3),
    _Kind("missing-table", r"no such table|relation .* does not exist|unknown column|no such column",
          "run the migrations", 0.75),
    _Kind("syntax", r"syntaxerror|syntax error|unexpected token|parse error|indentationerror", "", 0.3),
    _Kind("types", r"error ts\d+|typeerror|incompatible type|type mismatch|cannot assign|mismatched types", "", 0.5),
    _Kind("assertion", r"assertionerror|assert |expected .* (?:to|but)|tests? failed|\d+ failed|--- fail|failures",
          "", 0.5),
)  # fmt: skip


BY_WORDS = frozenset({"error", "syntax", "types", "assertion", "missing-file", "bad-arguments"})
"""Kinds that hold many different errors."""


@lru_cache(maxsize=1024)
def classify(error: str) -> Failure:
    """Return the kind of an error from its telling line."""
    for kind in _KINDS:
        found = re.search(kind.pattern, error, re.IGNORECASE)
        if found:
            subject = next((part for part in found.groupdict().values() if part), "").strip(".:,'\"`")
            first = kind.first.replace("{x}", f"`{subject}`" if subject else "what it needs")
            return Failure(kind.kind, subject, first, kind.value)
    return Failure("error", "", "", 0.45)


def error_key(error: str) -> tuple[str, str]:
    """Return what makes two errors the same: their kind and subject; of an error of no known kind its words.

    Quoted names, numbers and paths are left out of the words: they are of one call.
    """
    failure = classify(error)
    if failure.kind not in BY_WORDS:
        return failure.kind, failure.subject
    bare = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\S*[/\d]\S*", " ", error.lower())
    return failure.kind, " ".join(re.findall(r"[^\W\d_]{2,}", bare))
