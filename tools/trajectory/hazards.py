"""Commands that nobody should be talked into: they fetch and run, delete, turn a check off or send data away."""

import re
from collections.abc import Iterator, Sequence

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.guard.trust import unverified
from swarm_memory.tools.guard.wording import unmasked
from swarm_memory.tools.text.cleaning import lazy
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.shell import INTERPRETERS, Part, parse_command

_FETCHERS, _COPIERS, _SENDERS = {"curl", "wget"}, {"scp", "rsync", "sftp"}, {"nc", "ncat", "netcat", "socat"}
_DELETERS, _DELETE = {"shred", "wipefs", "mkfs"}, {"delete", "destroy", "prune", "purge"}
_IN_PROSE = _FETCHERS | _COPIERS | _SENDERS | _DELETERS | {"rm", "git", "chmod", "find"}
"""Programs that are seen without back-ticks too."""

_PROSE_WORDS = 40
_SUBSTITUTED = lazy(r"(?<![\w/-])(?:eval|source|\.|\w*sh|python[\d.]*|node)\s[^\n]{0,200}?[$<]\(\s*(?:curl|wget)\b")
_HERE = lazy(r"(?:\w+://)?(?:localhost|127\.0\.0\.1|\[::1\])(?:[:/]|$)")
_DATA_OUT = lazy(r"-[dFT]|(?:--data|--form|--json|--upload-file|--post|--body)[\w-]*(?:=|$)|-X?(?:POST|PUT)$|@\S")
_GIT = lazy(
    r"push (?:.* )?(?:-\w*f\w*|--force\S*|--mirror|--delete|\+\S+)(?: |$)|reset (?:.* )?--hard|clean (?:.* )?-\w*f"
    r"|commit (?:.* )?-n(?: |$)"
)
_TOO_OPEN = lazy(r"[0-7]?[0-7]?777|[ugo]*[ao]\+\w*w\w*|[ugo]*\+\w*s\w*")
_UNCHECKED = lazy(
    r"--no-(?:verify|check\S*|gpg\S*|sign\S*|tests?)(?:=|$)|--(?:insecure|trusted-host|skip-tests?|allow-unauthenticated"
    r"|dangerously\S*|disable-\w*(?:check|verif|secur)\S*)(?:=|$)|-DskipTests|(?:\S*sslverify|strict-ssl)=false"
    r"|stricthostkeychecking=no|(?:node_tls_reject_unauthorized|pythonhttpsverify)=0",
    re.IGNORECASE,
)
_IN_CODE = lazy(r"\bverify\s*=\s*False|rejectUnauthorized\s*:\s*false|\brmtree\(|_create_unverified_context")
_SPAN = lazy(r"`([^`\n]+)`")


def is_hazardous(text: str) -> bool:
    """Whether a text names such a command, in back-ticks or in a sentence. Linear in the length."""
    text = unmasked(text)
    return any(each.search(text) for each in (_IN_CODE, _SUBSTITUTED)) or any(map(_does_harm, _commands(text)))


def _commands(text: str) -> Iterator[str]:
    yield from (span[1] for span in _SPAN.finditer(text))
    for line in _SPAN.sub(" ", text).splitlines():
        words = line.split()
        for at, word in enumerate(words):
            if word.strip("(\"'").lower() in _IN_PROSE or _UNCHECKED.match(word):
                yield " ".join(words[at : at + _PROSE_WORDS]).rstrip(".!")


def _does_harm(line: str) -> bool:
    parts, is_fetched = parse_command(line).parts, False
    for part in parts:
        if is_fetched and (INTERPRETERS.match(part.program) or part.words[0].startswith(("./", "/"))):
            return True
        is_fetched = is_fetched or part.program in _FETCHERS
    return any(map(_is_harm, parts)) or any(map(_UNCHECKED.match, line.split()))


def _is_harm(part: Part) -> bool:
    program, given, said = part.program.lower(), part.words[1:], " ".join(part.words[1:])
    is_away = not any(map(_HERE.match, given))
    match program:
        case "rm":
            return any(re.match(r"-\w*[rRf]|--(?:recursive|force)", word) for word in given)
        case "git":
            return _GIT.match(said) is not None
        case "find":
            return "-delete" in given or "rm" in given
        case "chmod":
            return any(map(_TOO_OPEN.fullmatch, given))
        case "curl" | "wget":
            is_open = program == "curl" and any(re.fullmatch(r"-\w*k\w*", word) for word in given)
            return is_away and (is_open or any(map(_DATA_OUT.match, given)))
        case _:
            copies_away = program in _COPIERS and any(":" in word for word in given)
            return copies_away or program in _DELETERS | _SENDERS or not _DELETE.isdisjoint(given[:2])


def names_harm(item: MemoryItem) -> bool:
    """Whether any text of a memory names such a command."""
    return is_hazardous(f"{item.title}\n{item.description}\n{item.content}")


async def only_when_asked(toolbox: Toolbox, items: Sequence[MemoryItem]) -> set[str]:
    """Return the ids of those that name such a command and that nobody bears out: nobody is shown them unasked."""
    return await unverified(toolbox, list(filter(names_harm, items)))
