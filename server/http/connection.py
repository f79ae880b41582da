"""One HTTP connection with a time limit for the request header, which uvicorn lacks; it knows nothing of requests."""

import asyncio
from email.utils import formatdate
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_HEADER_BYTES = 32 * 1024


def timed_protocol(header_timeout_s: float) -> type[H11Protocol]:
    """Return a protocol that closes a connection on which no complete header has come in time.

    uvicorn's own limit, keep-alive, ends with the first byte of the next request: a client that sends one byte a
    minute, or none at all, would hold its connection for ever.
    """

    class TimedProtocol(H11Protocol):
        _late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as in uvicorn
            super().connection_made(transport)
            self._expect_header()

        def data_received(self, data: bytes) -> None:
            # uvicorn takes the date from a clock that ticks even where nobody asks.
            date = (b"date", formatdate(usegmt=True).encode())
            self.server_state.default_headers = [date, *self.config.encoded_headers]
            super().data_received(data)
            if self._is_idle():
                self._expect_header()
            else:
                self._header_came()

        def connection_lost(self, exc: Exception | None) -> None:
            self._header_came()
            super().connection_lost(exc)

        def _is_idle(self) -> bool:
            cycle: Any = self.cycle
            return cycle is None or cycle.response_complete

        def _expect_header(self) -> None:
            if self._late is None:
                self._late = self.loop.call_later(header_timeout_s, self.transport.close)

        def _header_came(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

    return TimedProtocol
