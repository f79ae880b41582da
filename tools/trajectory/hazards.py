"""Commands that no memory should talk anyone into: they fetch and run code, delete, disable checks or send data out."""

import re
from collections.abc import Iterator, Sequence

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.guard.trust import Histories, unverified
from swarm_memory.tools.guard.wording import unmasked
from swarm_memory.tools.text.cleaning import lazy
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.shell import INTERPRETERS, Part, parse_command

_FETCHERS, _COPIERS, _SENDERS = {"curl", "wget"}, {"scp", "rsync", "sftp"}, {"nc", "ncat", "netcat", "socat"}
_DELETERS, _DELETE = {"shred", "wipefs", "mkfs"}, {"delete", "destroy", "prune", "purge"}
_IN_PROSE = _FETCHERS | _COPIERS | _SENDERS | _DELETERS | {"rm", "git", "chmod", "find"}
"""Programs that are recognized even without backticks."""

_PROSE_WORDS = 20
_SUBSTITUTED = lazy(r"(?<![\w/-])(?:eval|source|\.|\w*sh|python[\d.]*|node)\s[^\n]{0,200}?[$<]\(\s*(?:curl|wget)\b")
_HERE = lazy(r"(?:\w+://)?(?:localhost|127\.0\.0\.1|\[::1\])(?:[:/]|$)")
_DATA_OUT = lazy(r"-[dFT]|(?:--data|--form|--json|--upload-file|--post|--body)[\w-]*(?:=|$)|-X?(?:POST|PUT)$|@\S")
_OF_ITSELF = {
    "rm": lazy(r"(?:^| )(?:-(?:\w*[rR]|-recursive)|/(?!tmp/)|[~$]|\S*(?:\.\.|[*?]))"),  # removing a stale lock is fine
    "git": lazy(
        r"^(?:push (?:.* )?(?:-\w*f\w*|--force(?!-)|--mirror|--delete|\+\S+)(?: |$)|reset (?:.* )?--hard"
        r"|clean (?:.* )?-\w*f|commit (?:.* )?-n(?: |$))"
    ),
    "find": lazy(r"(?:^| )(?:-delete|rm)(?: |$)"),
    "chmod": lazy(r"(?:^| )(?:[0-7]?[0-7]?777|[ugo]*[ao]\+\w*w\w*|[ugo]*\+\w*s\w*)(?: |$)"),
}
_UNCHECKED = lazy(
    r"--no-(?:verify|check\S*|gpg\S*|sign\S*|tests?)(?:=|$)|--(?:insecure|trusted-host|skip-tests?|allow-unauthenticated"
    r"|dangerously\S*|disable-\w*(?:check|verif|secur)\S*)(?:=|$)|-DskipTests|(?:\S*sslverify|strict-ssl)=false"
    r"|stricthostkeychecking=no|(?:node_tls_reject_unauthorized|pythonhttpsverify)=0",
    re.I,
)
_IN_CODE = lazy(r"\bverify\s*=\s*False|rejectUnauthorized\s*:\s*false|\brmtree\(|_create_unverified_context")
_SPAN, _LINE, _WORD = lazy(r"`([^`\n]+)`"), lazy(r".+"), lazy(r"\S+")

_ADVISED_AGAINST = lazy(
    r"(?:\b(?:never|(?:do|must|should) not|don['\u2019]t|avoid|nie(?:mals)?)\b"
    r"(?! (?:\w+ )?(?:forget|fail|hesitate|omit|skip|wait|neglect|refuse|miss|only|just|mind)\b)"
    r"(?:\s+\w+){0,2}\s+|(?:不要|别|禁止)\w{0,4}\s*)[\"'(]?\Z",
    re.I,
)
_REFUSED = lazy(r"[\"')]?\s+(?:is|are|was|gets)\s+(?:forbidden|refused|rejected|blocked|denied)\b", re.I)
_BEFORE = 60
"""At most this many characters before a command are searched for words that warn against it."""


def is_hazardous(text: str) -> bool:
    """Whether a text names such a command, in backticks or in a sentence, without warning against it. Linear time."""
    text = unmasked(text)
    in_code = (found.span() for each in (_IN_CODE, _SUBSTITUTED) for found in each.finditer(text))
    return any(
        not (_ADVISED_AGAINST.search(text, max(0, start - _BEFORE), start) or _REFUSED.match(text, end))
        for start, end in (*in_code, *_harmful(text))
    )


def _harmful(text: str) -> Iterator[tuple[int, int]]:
    yield from (span.span() for span in _SPAN.finditer(text) if _does_harm(span[1]))
    for line in _LINE.finditer(_SPAN.sub(lambda span: " " * len(span[0]), text)):
        words = list(_WORD.finditer(line[0]))
        for at, word in enumerate(words):
            is_named = word[0].strip("(\"'").lower() in _IN_PROSE or _UNCHECKED.match(word[0])
            if is_named and _does_harm(" ".join(each[0] for each in words[at : at + _PROSE_WORDS]).rstrip(".!")):
                yield line.start() + word.start(), line.start() + word.end()


def _does_harm(line: str) -> bool:
    parts, is_fetched = parse_command(line).parts, False
    for part in parts:
        if is_fetched and (INTERPRETERS.match(part.program) or part.words[0].startswith(("./", "/"))):
            return True
        is_fetched = is_fetched or part.program in _FETCHERS
    words = line.split()
    return any(map(_is_harm, parts)) or (_is_away(words) and any(map(_UNCHECKED.match, words)))


def _is_away(words: Sequence[str]) -> bool:
    return not any(map(_HERE.match, words)) or any("://" in each and not _HERE.match(each) for each in words)


def _is_harm(part: Part) -> bool:
    program, given = part.program.lower(), part.words[1:]
    if program in _OF_ITSELF:
        return _OF_ITSELF[program].search(" ".join(given)) is not None
    sends = program in _SENDERS or (program in _COPIERS and any(":" in word for word in given))
    if program in _FETCHERS:
        is_open = program == "curl" and len(given) > 1 and any(re.fullmatch(r"-\w*k\w*", each) for each in given)
        sends = is_open or any(map(_DATA_OUT.match, given))
    return (sends and _is_away(given)) or program in _DELETERS or not _DELETE.isdisjoint(given[:2])


async def unverified_hazards(toolbox: Toolbox, items: Sequence[MemoryItem], known: Histories | None = None) -> set[str]:
    """Return the ids of the unverified memories that name such a command: they are shown only on request."""
    harmful = [each for each in items if is_hazardous(f"{each.title}\n{each.description}\n{each.content}")]
    return await unverified(toolbox, harmful, known)
