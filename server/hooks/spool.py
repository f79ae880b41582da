"""Takes in the events that hook commands left in files because the database was busy."""

import logging
import os
import stat
from pathlib import Path

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.hook import HookEvent
from swarm_memory.server.hooks.events import handle_hook
from swarm_memory.server.state_files import checked_transcript
from swarm_memory.tools.toolbox import Toolbox

MAX_EVENT_BYTES = 100_000
MAX_FILES = 1000
"""Of one look; the rest waits for the next."""

log = logging.getLogger(__name__)


async def drain_spool(toolbox: Toolbox, folder: Path) -> int:
    """Do what the events spooled in `folder` ask for, oldest first; return how many were taken in.

    A file is removed once its event is in the database; one that holds no event is removed and logged. Raises
    `StorageError`: that event and the later ones stay.
    """
    taken = 0
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


def _read_event(path: Path) -> HookEvent:
    """Read one spooled event. It must be a private file of this user, and name a transcript of the host's own.

    The folder may have come with a cloned repository, whose files are not private and whose transcripts prove nothing.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise InputError("it is not a file")
        if os.name == "posix" and (status.st_mode & 0o077 or status.st_uid != os.geteuid()):
            raise InputError("it is not a private file of this user")
        event = HookEvent.model_validate_json(file.read(MAX_EVENT_BYTES))
    return event.model_copy(update={"transcript_path": checked_transcript(event.transcript_path or "")})
