"""Files of memories that `memories export` wrote: told by their first line, and read one record a line."""

import json
from pathlib import Path
from typing import Any, cast

MAX_FIRST_BYTES = 4_000_000


def is_export(path: Path) -> bool:
    """Return whether the first line of a file is a memory as `memories export` writes it."""
    with path.open("rb") as file:
        line = file.readline(MAX_FIRST_BYTES)
    if b'"rm_' not in line:
        return False
    try:
        first: object = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return False
    if not isinstance(first, dict):
        return False
    record = cast("dict[str, Any]", first)
    return str(record.get("id")).startswith("rm_") and {"title", "content"} <= record.keys()
