"""Adds the bearer token to the requests of a client that cannot; the product itself has no way around the token."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress


@asynccontextmanager
async def adding_token(port: int, token: str) -> AsyncGenerator[int]:
    """Forward connections to `port` with an `Authorization` header in each request; yield the port to call.

    `Host` and `Origin` name the server's port, as with any proxy on the same machine: pages of other ports are refused.
    """
    tasks: set[asyncio.Task[None]] = set()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            head = head.replace(b":%d\r\n" % own, b":%d\r\n" % port)
            first, _, rest = head.partition(b"\r\n")
            kept = [line for line in rest.split(b"\r\n") if line and not line.lower().startswith(b"connection:")]
            added = [f"Authorization: Bearer {token}".encode(), b"Connection: close"]
            upstream, downstream = await asyncio.open_connection("127.0.0.1", port)
            downstream.write(b"\r\n".join([first, *kept, *added, b"", b""]))
            await asyncio.gather(_copy(reader, downstream), _copy(upstream, writer))
        writer.close()
        tasks.discard(task)

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    own = server.sockets[0].getsockname()[1]
    try:
        yield own
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    finally:
        target.close()
