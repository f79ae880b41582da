"""Edits that an agent writes as blocks in a message: SEARCH/REPLACE, patches, diffs, whole files."""

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from swarm_memory.server.hosts.plain.acts import MAX_ACTS, Act, Said, fences, sections
from swarm_memory.server.hosts.plain.answers import edit_outcome
from swarm_memory.server.hosts.records import JsonObject

_SEARCH = re.compile(r"^<{5,9} ?(?:SEARCH|ORIGINAL|HEAD)\b[^\n]{0,200}$", re.MULTILINE)
_MIDDLE = re.compile(r"^={5,9}[ \t]{0,4}$", re.MULTILINE)
_REPLACE = re.compile(r"^>{5,9} ?(?:REPLACE|UPDATED)\b[^\n]{0,200}$", re.MULTILINE)
_PATCH = re.compile(r"\*\*\* Begin Patch(.*?)(?:\*\*\* End Patch|\Z)", re.DOTALL)
_PATCH_FILE = re.compile(r"^\*\*\* (Update|Add|Delete) File: ([^\n]{1,500})$", re.MULTILINE)
_DIFF_FILE = re.compile(r"^--- ([^\n]{1,600})\n\+\+\+ ([^\n]{1,600})$", re.MULTILINE)
_EMPTY_FENCE = re.compile(r"^```[^\n`]{0,60}\n\s{0,20}```[ \t]{0,4}$", re.MULTILINE)
_HUNK = re.compile(r"^@@", re.MULTILINE)
_PATH = re.compile(r"[\w.@+~/\\-]{1,300}")
_NAME_LINES = 3


class _Edit(NamedTuple):
    start: int
    end: int
    act: Act


def edit_acts(text: str) -> Said:
    """Return the edits of a message and what it says beside them."""
    found = sorted([*_search_replace(text), *_patches(text), *_diffs(text)], key=lambda edit: edit.start)[:MAX_ACTS]
    kept: list[str] = []
    acts: list[Act] = []
    position = 0
    for edit in found:
        if edit.start >= position:
            kept.append(text[position : edit.start])
            position = edit.end
        acts.append(edit.act)
    kept.append(text[position:])
    return Said(_EMPTY_FENCE.sub("", "".join(kept)).strip() if acts else text, acts=acts)


def whole_files(text: str, answer: str) -> list[Act]:
    """Return the fences with a path in the line before, where the answer says that this file was written, or not."""
    named = ((_name_before(text, block.start), block.body) for block in fences(text))
    files = [Act("write", {"file_path": name, "content": body}, "edit") for name, body in named if "." in name]
    outcome = edit_outcome(answer) if files else None
    return [act for act in files[:MAX_ACTS] if outcome and outcome.names(act.file)]


def _edit(file: str, old: str, new: str) -> Act:
    named: JsonObject = {"file_path": file} if file else {}
    return Act("edit", {**named, "old_string": old, "new_string": new}, "edit")


def _search_replace(text: str) -> Iterator[_Edit]:
    """Yield SEARCH/REPLACE blocks; one that names no file is of the file of the block before it."""
    position, file = 0, ""
    for opening in itertools.islice(_SEARCH.finditer(text), MAX_ACTS):
        if opening.start() < position:
            continue
        middle = _MIDDLE.search(text, opening.end())
        closing = _REPLACE.search(text, middle.end()) if middle else None
        if middle is None or closing is None:
            return
        file = _name_before(text, opening.start()) or file
        old, new = text[opening.end() + 1 : middle.start()], text[middle.end() + 1 : closing.start()]
        position = closing.end()
        yield _Edit(opening.start(), position, _edit(file, old.rstrip("\n"), new.rstrip("\n")))


def _name_before(text: str, position: int) -> str:
    """Return the path in one of the lines right before a place, past a fence; empty where there is none."""
    lines = text[max(0, position - 1500) : position].rstrip("\n").split("\n")[-_NAME_LINES:]
    for line in reversed(lines):
        said = line.strip()
        if not said or said.startswith("```"):
            continue
        name = re.sub(r"^(?:file(?:name|path)?|path)\s{0,3}:\s{0,3}|^#{1,6} ", "", said, flags=re.I).strip("*`#:\"' ")
        is_path = _PATH.fullmatch(name) and ("/" in name or "." in name.strip("."))
        return name if is_path else ""
    return ""


def _patches(text: str) -> Iterator[_Edit]:
    """Yield the files of `*** Begin Patch` blocks."""
    for patch in itertools.islice(_PATCH.finditer(text), MAX_ACTS):
        for mark, body in sections(_PATCH_FILE.finditer(patch[1]), patch[1]):
            yield _Edit(patch.start(), patch.end(), _patched(mark[1], mark[2].strip(), body))


def _patched(verb: str, file: str, body: str) -> Act:
    if verb == "Add":
        content = "\n".join(line[1:] for line in body.split("\n") if line.startswith("+"))
        return Act("write", {"file_path": file, "content": content}, "edit")
    if verb == "Delete":
        return Act("delete", {"file_path": file}, "edit")
    return _edit(file, *_sides(body))


def _diffs(text: str) -> Iterator[_Edit]:
    """Yield the files of unified diffs that stand in fences."""
    for block in fences(text):
        marks = _DIFF_FILE.finditer(block.body) if _HUNK.search(block.body) else ()
        for mark, body in sections(marks, block.body):
            file = _file_of(mark[1] if mark[2].startswith("/dev/null") else mark[2])
            yield _Edit(block.start, block.end, _edit(file, *_sides(body)))


def _file_of(said: str) -> str:
    name = said.split("\t")[0].strip()
    return name[2:] if name[:2] in ("a/", "b/") else name


def _sides(body: str) -> tuple[str, str]:
    """Return the old and the new lines of a diff."""
    lines = [line for line in body.split("\n") if not line.startswith(("@@", "diff ", "index ", "\\"))]
    old = "\n".join(line[1:] for line in lines if line[:1] in ("-", " "))
    new = "\n".join(line[1:] for line in lines if line[:1] in ("+", " "))
    return old, new
