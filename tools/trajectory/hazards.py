"""Commands that no memory should talk anyone into: they fetch and run code, delete, disable checks or send data out."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.guard.rules import COMMANDS, compiled, table
from swarm_memory.tools.guard.trust import Histories, unverified
from swarm_memory.tools.guard.wording import letters, unmasked
from swarm_memory.tools.text.cleaning import lazy
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.shell import INTERPRETERS, Part, parse_command

_TOLD, _OF_ITSELF = {"run", "execute", "call", "first", "then"}, "commands.of_itself"
_FETCHERS, _LOOKS = {"curl", "wget"}, frozenset({"test", "lint", "search", "read", "print", "wait", "edit"})
_TOLD_ROWS = ("in-code", "substituted", "fetched", "piped", "removed", "unguarded", "leaked")
_QUOTES = "([\"'\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb*"
_HERE, _NOTHING = lazy(r"(?:\w+://)?(?:localhost|127\.0\.0\.1|\[::1\])(?:[:/]|$)"), lazy(r"(?!)")
_SPAN, _LINE, _WORD = lazy(r"\u2039([^\u2039\u203a]+)\u203a"), lazy(r".+"), lazy(r"\S+")  # code as `in-marks` marks it
_PROSE_WORDS, _BEFORE = 20, 60  # at most this many words are read as a command, and characters before it as a warning


def is_hazardous(text: str) -> bool:
    """Whether a text names such a command, in code or in a sentence, without warning against it. Linear time."""
    text = _row("joined").sub(" ", _row("in-marks").sub("\u2039\\1\\2\\3\u203a", unmasked(text)))
    return any(
        not (_row("warned").search(view, max(0, start - _BEFORE), start) or _row("refused").match(view, end))
        for view in (text, letters(text))
        for start, end in _harmful(view)
    )


def _harmful(text: str) -> Iterator[tuple[int, int]]:
    yield from (found.span() for row in _TOLD_ROWS for found in _row(row).finditer(text))
    yield from (span.span() for span in _SPAN.finditer(text) if _does_harm(span[1]))
    for line in _LINE.finditer(_SPAN.sub(lambda span: " " * len(span[0]), text)):
        found, before = list(_WORD.finditer(line[0])), ""
        for at, word in enumerate(found):
            words = [each[0] for each in found[at : at + _PROSE_WORDS]]
            if _is_named(before, words) and _does_harm(" ".join(words).lstrip(_QUOTES).rstrip(".!")):
                yield line.start() + word.start(), line.start() + word.end()
            before = word[0].lower()


def _is_named(before: str, words: Sequence[str]) -> bool:
    said, is_told, known = words[0].strip(_QUOTES).lower(), before in _TOLD, table(COMMANDS).words
    is_known = said in known["known"] or said in known["judged"] or (is_told and bool(INTERPRETERS.match(said)))
    if not is_known and said != ":" and (row := _row(said, _OF_ITSELF)) is not _NOTHING:  # it ends where prose goes on
        ends = next((at for at, word in enumerate(words) if at and _row("after").match(word)), len(words))
        shown = [at for at, word in enumerate(words[:ends]) if at and _row("argument").match(word)]
        is_known = row.search(" ".join(words[1 : ends if is_told else max([0, *shown]) + 1])) is not None
    is_given = is_known and (any(map(_row("argument").match, words[1:8])) or not known["harm"].isdisjoint(words[1:3]))
    is_called = (is_known and is_told) or (is_given and said not in known["spoken"])
    return is_called or _row("unchecked").match(words[0]) is not None


def _does_harm(line: str) -> bool:
    words, parts = line.split(), parse_command(line).parts
    others = [part for part in parts if not _only_reads(part)]
    is_brought = _row("brought").search(line) is not None and any(each.purpose in ("other", "run") for each in others)
    is_bad = any(part.program in _FETCHERS for part in parts) or _row("outward").search(line) is not None
    is_out = (bool(others) and is_bad) or any(map(_row("unchecked").match, words))
    is_run = any(INTERPRETERS.match(each.program) for each in others)  # what comes from this machine, too
    return is_brought or any(map(_is_harm, parts)) or (is_out and (is_run or _is_away(words)))


def _only_reads(part: Part) -> bool:
    if part.program in _FETCHERS:
        return not (part.outputs or _row(part.program, _OF_ITSELF).search(" ".join(part.words[1:])))
    return part.purpose in _LOOKS and part.program not in table(COMMANDS).words["known"]


def _is_away(words: Sequence[str]) -> bool:
    return not any(map(_HERE.match, words)) or any("://" in each and not _HERE.match(each) for each in words)


def _is_harm(part: Part) -> bool:
    given, known = part.words[1:], table(COMMANDS).words
    program = part.program.lower().partition(".")[0] or part.program  # `mkfs.ext4`
    is_bad = program not in _FETCHERS and _row(program, _OF_ITSELF).search(" ".join(given))
    is_foreign = INTERPRETERS.match(program) and any(map(_row("foreign").match, given[:1]))
    if is_bad or is_foreign or any(map(_row("written").search, part.outputs)):
        return True
    if part.is_inline:
        return not known["calls"].issuperset(_row("called").findall(" ".join(given)))
    is_target = program in known["runners"]  # the project says what it does: only its name may tell
    named = part.subcommand if is_target and _only_reads(part) else " ".join(part.words)
    said = [set(re.split(r"[^a-z0-9]+", each)) for each in named.lower().split()]
    is_bad = any(known["spare"].isdisjoint(each) and not known["harm"].isdisjoint(each) for each in said)
    # Behind an option it may be that option's value; and `gh run delete` is not the `gh run` that is fine.
    is_clear = (given[:1] == (part.subcommand,) and known["harm"].isdisjoint(given[1:2])) or not is_bad
    is_fine = program in known["judged"] or (f"{program} {part.subcommand}" in known["fine"] and is_clear)
    is_fine |= _only_reads(part) and not is_target
    return (is_bad or program in known["known"]) and bool(given) and not is_fine


@lru_cache(512)
def _row(name: str, section: str = "commands") -> re.Pattern[str]:
    """Return the pattern of a row of a section of `commands.toml`; where there is none, one that nothing matches."""
    return next((compiled(each) for each in table(COMMANDS).sections[section] if each.name == name), _NOTHING)


async def unverified_hazards(toolbox: Toolbox, items: Sequence[MemoryItem], known: Histories | None = None) -> set[str]:
    """Return the ids of the unverified memories that name such a command: they are shown only on request."""
    harmful = [each for each in items if is_hazardous(f"{each.title}\n{each.description}\n{each.content}")]
    return await unverified(toolbox, harmful, known)
