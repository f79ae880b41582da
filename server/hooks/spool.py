"""Events that wait in files because the database was busy: left by hook commands, taken in by a worker.

Hook commands import this while a person waits: what only the worker needs is imported where it takes them in.
"""

import json
import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from swarm_memory.schema.errors import InputError
from swarm_memory.server.hosts.paths import checked_transcript
from swarm_memory.server.location import SPOOL, refuse_links

if TYPE_CHECKING:
    from swarm_memory.server.hooks.event import HookEvent
    from swarm_memory.tools.toolbox import Toolbox

MAX_EVENT_BYTES = 100_000
MAX_FILES = 1000
"""Of one look; the rest waits for the next."""


def spool_event(folder: Path, event: Mapping[str, str]) -> None:
    """Write an event into the spool of `folder`: a reader sees all of it or nothing, and only the user can read it."""
    spool = folder / SPOOL
    refuse_links(folder, spool)
    spool.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = spool / f"{time.time_ns()}-{os.getpid()}.part"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(event, file)
    path.replace(path.with_suffix(".json"))


async def drain_spool(toolbox: "Toolbox", folder: Path) -> int:
    """Do what the events spooled in `folder` ask for, oldest first; return how many were taken in.

    A file is removed once its event is in the database; one that holds no event is removed and logged. Raises
    `StorageError`: that event and the later ones stay.
    """
    import logging

    from swarm_memory.server.hooks.events import handle_hook

    log, taken = logging.getLogger(__name__), 0
    for path in _waiting(folder):
        try:
            event = _read_event(path)
        except FileNotFoundError:
            continue  # another worker was faster
        except (InputError, OSError, ValueError) as error:
            log.warning("spooled event %s was dropped: %s", path.name, error)
        else:
            await handle_hook(toolbox, event)
            taken += 1
        path.unlink(missing_ok=True)
    return taken


def _waiting(folder: Path) -> list[Path]:
    if folder.is_symlink():
        return []  # what it leads to is not ours to read, nor to remove
    return sorted(folder.glob("*.json"))[:MAX_FILES]


def _read_event(path: Path) -> "HookEvent":
    """Read one spooled event. It must be a private file of this user, and name a transcript of the host's own.

    The folder may have come with a cloned repository, whose files are not private and whose transcripts prove nothing.
    """
    from swarm_memory.server.hooks.event import HookEvent

    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise InputError("it is not a file")
        if os.name == "posix" and (status.st_mode & 0o077 or status.st_uid != os.geteuid()):
            raise InputError("it is not a private file of this user")
        event = HookEvent.model_validate_json(file.read(MAX_EVENT_BYTES))
    return event.model_copy(update={"transcript_path": checked_transcript(event.transcript_path or "")})
