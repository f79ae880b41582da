"""Records what hooks missed: a prompt not answered in time, a refused event; kept outside every project."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.location import append_private, state_folder

MAX_BYTES = 200_000
KEPT_DAYS = 30
_DAY_S = 86_400


class Missed(NamedTuple):
    """Events of one kind that were missed for one reason."""

    event: str
    reason: str
    times: int
    last_at: float
    """Seconds since 1970."""


def note_missed(root: str | Path, event: str, reason: str) -> None:
    """Note that a hook could not do its work. Raises `OSError`."""
    path = _file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    line = {"at": time.time(), "root": os.path.realpath(root), "event": event, "reason": reason[:300]}
    append_private(path, json.dumps(line), MAX_BYTES)


def missed(root: Path) -> list[Missed]:
    """Return what the hooks of a project missed in the last 30 days, the most frequent first. Raises `ConfigError`."""
    since, wanted = time.time() - KEPT_DAYS * _DAY_S, os.path.realpath(root)
    times: dict[tuple[str, str], list[float]] = {}
    for note in (*_notes(Path(f"{_file()}.1")), *_notes(_file())):
        at = note.get("at")
        if note.get("root") == wanted and isinstance(at, float) and at >= since:
            times.setdefault((str(note.get("event")), str(note.get("reason"))), []).append(at)
    found = [Missed(*key, len(each), max(each)) for key, each in times.items()]
    return sorted(found, key=lambda each: -each.times)


def lines_of_missed(root: Path) -> list[str]:
    """Return a line for each kind of event and reason, for people."""
    return [
        f"{each.event} missed {each.times} {'time' if each.times == 1 else 'times'} in {KEPT_DAYS} days, "
        f"last on {time.strftime('%Y-%m-%d at %H:%M', time.localtime(each.last_at))}: {each.reason}"
        for each in missed(root)
    ]


def _file() -> Path:
    return state_folder() / "missed"


def _notes(path: Path) -> Iterator[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}; delete it") from error
    for line in lines:
        with suppress(ValueError):  # of two lines that were written at the same time
            note: Any = json.loads(line)
            if isinstance(note, dict):
                yield cast("dict[str, Any]", note)
