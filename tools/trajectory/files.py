"""The files of a trajectory: which were written when and by which call, and which were there before.

A file is known by its path as the calls name it. A call may name it by its whole path and another by the end of it, so
that two paths are one file where one ends with the other.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.shell import Command, Part

How = Literal["write", "change", "read", "delete"]
"""`write` puts a whole text there and needs none; `change` needs one that is there."""

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
"""A script that is given in the command line writes a file whole."""

_QUOTED_PATH = re.compile(r"['\"]([\w./~-]{0,200}\w\.[A-Za-z]\w{0,7})['\"]")
"""What such a script names beside."""


@dataclass(frozen=True, slots=True)
class File:
    """One file with all that was done to it."""

    path: str
    """The longest that a call gives."""
    touches: tuple[tuple[How, Call], ...]
    """What was done to it, by which call, in order."""
    is_own: bool
    """Whether the agent made it, as far as is seen: it was written whole, and neither read nor needed before that."""

    @property
    def writes(self) -> tuple[Call, ...]:
        """The calls that wrote or changed it and did not fail, in order."""
        return tuple(call for how, call in self.touches if how in ("write", "change"))


def files_of(calls: Sequence[Call]) -> tuple[File, ...]:
    """Return all files that the calls of a trajectory name, but for those of calls that failed."""
    by_path: dict[str, list[tuple[How, Call]]] = {}
    for call in calls:
        if call.observation is None or call.failed or call.refused:
            continue
        for path, how in _of_command(call.command) if call.command else _of_tool(call):
            if plain := _plain(path):
                by_path.setdefault(plain, []).append((how, call))
    groups: dict[str, list[tuple[How, Call]]] = {}
    for path in sorted(by_path, key=len, reverse=True):
        whole = next((other for other in groups if same_file(other, path)), path)
        groups.setdefault(whole, []).extend(by_path[path])
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
        plain = plain[1:]  # behind the script
    elif part.program in ("cp", "mv", "install", "ln"):
        plain, how = plain[1:][-1:], "write"
    if how is not None:
        for word in plain:
            yield word, how


def _plain(path: str) -> str:
    if not _IS_PATH.fullmatch(path) or path.startswith("/dev/"):
        return ""
    return str(PurePosixPath(path.replace("\\", "/"))).removeprefix("./")


def same_file(left: str, right: str) -> bool:
    """Whether two paths are one file, as far as they show: one may be the end of the other."""
    return left == right or left.endswith(f"/{right}") or right.endswith(f"/{left}")
