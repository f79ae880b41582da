"""Events that found the database busy: small files beside it that the next worker takes in.

The writing side is imported by hook commands and needs nothing but the standard library; the reading side imports what
it needs when it runs.
"""

import json
import logging
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from swarm_memory.server.host_transcript import checked_transcript

if TYPE_CHECKING:
    from swarm_memory.schema.hook import HookEvent
    from swarm_memory.tools.toolbox import Toolbox

FOLDER = "spool"
MAX_EVENT_BYTES = 100_000
MAX_FILES = 1000
"""Of one look; the rest waits for the next."""

log = logging.getLogger(__name__)


def spool_event(folder: Path, event: dict[str, object]) -> Path:
    """Write an event into `folder` so that a reader sees all of it or nothing, and only the user can read it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{time.time_ns()}-{os.getpid()}.json"
    unfinished = path.with_suffix(".part")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(event, file)
    unfinished.replace(path)
    return path


async def drain_spool(toolbox: "Toolbox", folder: Path) -> int:
    """Do what the spooled events ask for, oldest first; return how many were taken in.

    A file is removed once its event is in the database; one that holds no event is removed and logged. Raises
    `StorageError`: that event and the later ones stay.
    """
    from swarm_memory.schema.errors import InputError
    from swarm_memory.tools.hook_events import handle_hook

    taken = 0
    for path in _waiting(folder):
        try:
            event = _read_event(path)
        except FileNotFoundError:
            continue  # another worker was faster
        except (InputError, OSError, ValueError, RecursionError) as error:
            log.warning("spooled event %s was dropped: %s", path.name, error)
        else:
            await handle_hook(toolbox, event)
            taken += 1
        path.unlink(missing_ok=True)
    return taken


def _waiting(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))[:MAX_FILES]


def _read_event(path: Path) -> "HookEvent":
    """Read one spooled event. It must be a private file of this user, and name a transcript of the host's own.

    The folder may have come with a cloned repository, whose files are not private and whose transcripts prove nothing.
    """
    from swarm_memory.schema.errors import InputError
    from swarm_memory.schema.hook import HookEvent

    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if os.name == "posix" and (status.st_mode & 0o077 or status.st_uid != os.geteuid()):
            raise InputError("it is not a private file of this user")
        event = HookEvent.model_validate_json(file.read(MAX_EVENT_BYTES))
    return event.model_copy(update={"transcript_path": str(checked_transcript(event.transcript_path or ""))})
