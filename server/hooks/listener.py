"""The private socket of a running server, over which hook commands hand their events to it."""

import errno
import json
import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import anyio
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

from swarm_memory.server.bank import Bank
from swarm_memory.server.hooks.client import (
    GO,
    MAX_LINE_BYTES,
    READY,
    given_settings,
    is_private,
    run_folder,
    short_name,
    socket_prefix,
)

EXCHANGE_S = 30.0
"""So long one exchange may take; the command has given up long before."""

log = logging.getLogger(__name__)


async def listen(bank: Bank, is_current: Callable[[], bool]) -> None:
    """Answer hook commands until cancelled.

    Where `is_current` says that the settings were changed since this process read them, commands do their work
    themselves; so they do where no socket can be made, which is logged.
    """
    if sys.platform == "win32":
        return
    root, folder = os.path.realpath(bank.root), run_folder()  # noqa: ASYNC240 - once, at the start
    path = folder / f"{socket_prefix(bank.root)}{os.getppid()}-{os.getpid()}.sock"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_private(folder):
            raise PermissionError(errno.EPERM, "others may enter its folder")
        with short_name(path) as address:
            listener = await anyio.create_unix_listener(address, mode=0o600)
    except OSError as error:
        log.warning("hooks do their work without this server: %s: %s", path, error.strerror or error)
        return
    try:
        async with listener:
            await listener.serve(partial(_exchange, bank=bank, root=root, is_current=is_current))
    except* (OSError, anyio.BrokenResourceError) as error:  # no file descriptor is left for another connection
        log.warning("hooks do their work without this server from now on: %s", error.exceptions[0])
    finally:
        path.unlink(missing_ok=True)


async def _exchange(stream: ByteStream, bank: Bank, root: str, is_current: Callable[[], bool]) -> None:
    """Serve one command; whatever it sends, the server goes on."""
    async with stream:
        try:
            with anyio.move_on_after(EXCHANGE_S):
                await _serve(stream, bank, root, is_current)
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.DelimiterNotFound):
            pass  # the command did the work itself
        except (OSError, ValueError, RecursionError) as error:
            log.warning("a hook's request could not be answered: %s", error)


async def _serve(stream: ByteStream, bank: Bank, root: str, is_current: Callable[[], bool]) -> None:
    lines = BufferedByteReceiveStream(stream)
    request: Any = json.loads(await lines.receive_until(b"\n", MAX_LINE_BYTES))
    if not isinstance(request, dict):
        raise ValueError("it is no object")
    asked = cast("dict[str, Any]", request)
    if asked.get("root") != root:
        return
    event = asked.get("event")
    if not isinstance(event, dict):
        _note_session(bank, asked, asked.get("session_id"))
        bank.wake_worker()
        return
    if asked.get("settings") != given_settings() or not is_current():
        return
    await stream.send(READY)
    if await lines.receive_exactly(len(GO)) != GO:
        return
    from swarm_memory.server.hooks.events import answer_hook

    told = cast("dict[str, Any]", event)
    with bank.serving():
        answer = await answer_hook(bank.toolbox, told, "server", bank.root)
    await stream.send(json.dumps(answer).encode() + b"\n")
    _note_session(bank, asked, told.get("session_id"))
    bank.wake_worker()


def _note_session(bank: Bank, asked: dict[str, Any], session_id: object) -> None:
    """Over stdio the host that started the command is the client of this server, if it started that too."""
    if isinstance(session_id, str) and asked.get("parent") == os.getppid():
        bank.note_session("", session_id)
