"""Reads a stream one item at a time in a thread, so that the event loop keeps running; knows nothing of the items."""

from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TypeVar

import anyio.to_thread

T = TypeVar("T")


async def in_thread(open_stream: Callable[[], Iterator[T]]) -> AsyncGenerator[T]:
    """Yield the items of a stream that is opened and read in a thread. Its errors are raised where it is iterated."""
    stream = await anyio.to_thread.run_sync(open_stream)
    ended = object()
    while (item := await anyio.to_thread.run_sync(next, stream, ended)) is not ended:
        yield item  # pyright: ignore[reportReturnType] - not `ended`, so a T
