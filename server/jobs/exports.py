"""Files of memories that `export` wrote, known by their content, however a program has laid them out since."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from swarm_memory.schema.errors import InputError

HEAD_BYTES = 65_536
FIRST_BYTES = 4_000_000
"""The first record is looked at where the head speaks of one."""

MAX_DOCUMENT_BYTES = 64_000_000
"""What is not one record a line must fit in memory."""

_BLANK = "\ufeff \t\r\n,"


def is_export(path: Path) -> bool:
    """Return whether the first record of a file is a memory as `export` writes it."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        if b'"rm_' not in head:
            return False
        head += file.read(FIRST_BYTES - len(head))
    try:
        first: object = json.JSONDecoder().raw_decode(head.decode("utf-8", "replace").lstrip(_BLANK + "["))[0]
    except (ValueError, RecursionError):
        return False
    if not isinstance(first, dict):
        return False
    record = cast("dict[str, Any]", first)
    return str(record.get("id")).startswith("rm_") and {"title", "content"} <= record.keys()


def lines_of(path: Path) -> Iterator[str]:
    """Yield the records of a file, each as a line of JSON; lines that are records of their own as they are.

    Objects that go over lines, one after the other or in an array, are read too. Raises `InputError` for a document
    that is too large or no JSON from some place on.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        first = next((line for line in file if line.strip(_BLANK)), "")
        with suppress(ValueError, RecursionError):
            if isinstance(json.loads(first.lstrip("\ufeff")), dict):
                yield first
                yield from file
                return
    if path.stat().st_size > MAX_DOCUMENT_BYTES:
        raise InputError(f"has more than {MAX_DOCUMENT_BYTES // 1_000_000} MB and not one record a line")
    for value in _values(path.read_text("utf-8", "replace")):
        for record in cast("list[object]", value) if isinstance(value, list) else [value]:
            yield json.dumps(record, ensure_ascii=False)


def _values(text: str) -> Iterator[object]:
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if text[at] in _BLANK:
            at += 1
            continue
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise InputError(f"is no JSON from character {at} on") from error
        yield value
