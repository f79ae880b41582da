"""The private socket of a running server, over which hook commands hand their events to it."""

import errno
import json
import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio
from anyio.abc import ByteStream
from anyio.streams.buffered import BufferedByteReceiveStream

from swarm_memory.schema.errors import SwarmMemoryError
from swarm_memory.server.hooks.client import (
    GO,
    MAX_REQUEST_BYTES,
    READY,
    READY_S,
    given_settings,
    is_private,
    run_folder,
    send,
    short_socket_path,
    socket_prefix,
)
from swarm_memory.server.location import project_file, user_file
from swarm_memory.server.served_bank import FIRST_LOOK_S

if TYPE_CHECKING:
    from swarm_memory.server.served_bank import ServedBank

_MAX_LENGTHS_BYTES = 40
EXCHANGE_S = 30.0
"""How long one exchange may take; the command has given up long before."""

log = logging.getLogger(__name__)


def settings_stamp(root: Path) -> tuple[tuple[int, int] | None, ...]:
    """Return a stamp that changes whenever a project's settings files do; None in it stands for a missing file."""
    stamps: list[tuple[int, int] | None] = []
    for file in (project_file(root), user_file(os.environ)):
        status = None
        with suppress(OSError):
            status = file.stat()
        stamps.append(status and (status.st_mtime_ns, status.st_size))
    return tuple(stamps)


async def listen(bank: "ServedBank", may_answer: Callable[[], bool]) -> None:
    """Answer hook commands until cancelled.

    While `may_answer` returns False, commands do their work themselves, as they do where no socket can be made, which
    is logged. `may_answer` may raise a `SwarmMemoryError`.
    """
    if sys.platform == "win32":
        return
    root = os.path.realpath(bank.root)  # noqa: ASYNC240 - once, at the start
    path = os.path.join(run_folder(), f"{socket_prefix(bank.root)}{os.getppid()}-{os.getpid()}.sock")  # noqa: PTH118
    try:
        Path(run_folder()).mkdir(mode=0o700, parents=True, exist_ok=True)  # noqa: ASYNC240
        if not is_private(run_folder()):
            raise PermissionError(errno.EPERM, "other users can enter its folder")
        await anyio.to_thread.run_sync(_sweep)
        with short_socket_path(path) as address:
            listener = await anyio.create_unix_listener(address, mode=0o600)
    except OSError as error:
        log.warning("hooks do their work without this server: %s: %s", path, error.strerror or error)
        return
    try:
        async with listener, anyio.create_task_group() as group:
            group.start_soon(_warm, bank, may_answer)
            await listener.serve(partial(_exchange, bank=bank, root=root, may_answer=may_answer), group)
    except* (OSError, anyio.BrokenResourceError) as error:  # no file descriptor is left for another connection
        log.warning("hooks do their work without this server from now on: %s", error.exceptions[0])
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)  # noqa: PTH108 - one system call


def _sweep() -> None:
    """Remove the sockets of killed servers, of any project: nobody listens on them and the process is gone."""
    for path in Path(run_folder()).glob("*.sock"):
        with socket.socket(socket.AF_UNIX) as channel, suppress(OSError, ValueError):  # the name is not a server's
            send(channel, str(path), b"", time.monotonic() + READY_S)


async def _exchange(stream: ByteStream, bank: "ServedBank", root: str, may_answer: Callable[[], bool]) -> None:
    """Serve one command; the server keeps running whatever it sends."""
    async with stream:
        try:
            with anyio.move_on_after(EXCHANGE_S):
                await _serve(stream, bank, root, may_answer)
        except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.DelimiterNotFound):
            pass  # the command did the work itself
        except (OSError, ValueError, RecursionError, SwarmMemoryError) as error:
            log.warning("a hook's request could not be answered: %s", error)


async def _serve(stream: ByteStream, bank: "ServedBank", root: str, may_answer: Callable[[], bool]) -> None:
    lines = BufferedByteReceiveStream(stream)
    lengths = [int(each) for each in (await lines.receive_until(b"\n", _MAX_LENGTHS_BYTES)).split()]
    if len(lengths) != 2 or min(lengths) < 0 or sum(lengths) > MAX_REQUEST_BYTES:
        raise ValueError("it is not a request, or it is too long")
    fields, text = [await lines.receive_exactly(length) for length in lengths]
    of, parent, session, called, *settings = fields.split(b"\0")
    if of != os.fsencode(root):
        return
    session_id: object = session.decode(errors="replace")
    if text:
        event: Any = json.loads(text)
        if not isinstance(event, dict):
            raise ValueError("its event is not an object")
        if settings != given_settings() or not may_answer():
            return
        await stream.send(READY)
        if await lines.receive_exactly(len(GO)) != GO:
            return
        from swarm_memory.server.hooks.events import answer_hook

        said = cast("dict[str, Any]", event)
        with bank.serving():
            answer = await answer_hook(bank.toolbox, said, "server", bank.place, called.decode())
        await stream.send(json.dumps(answer).encode() + b"\n")
        session_id = said.get("session_id")
    # Over stdio the host that started the command is this server's client, if it also started the server.
    if session_id and isinstance(session_id, str) and parent == str(os.getppid()).encode():
        bank.note_session(session_id)
    bank.wake_worker()


async def _warm(bank: "ServedBank", may_answer: Callable[[], bool]) -> None:
    """Do what makes a first retrieval slow, such as loading the embedder: a server starts when a session begins."""
    await anyio.sleep(FIRST_LOOK_S)  # the client's first requests are served first
    from swarm_memory.tools.retrieve.retrieve import run_stages

    try:
        if not (bank.is_made and may_answer()):
            return
        toolbox = await bank.toolbox()
        if toolbox.embedder.light:  # any other may be an endpoint, which costs
            await run_stages(toolbox, "begin")
    except (SwarmMemoryError, OSError, MemoryError, RuntimeError, ImportError) as error:
        log.info("nothing was made ready: %s", error)  # for lack of RAM, say: the first use says why
