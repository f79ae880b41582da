"""How much one client may ask for: a token bucket for each client address; it knows nothing of HTTP."""

import time
from collections import OrderedDict
from collections.abc import Callable

MAX_CLIENTS = 4096
"""Addresses that are remembered; the one not heard of for longest is forgotten first."""


class RateLimit:
    """Admits `burst` requests of a client at once and `per_second` over time."""

    def __init__(self, per_second: float, burst: int, now: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._now = now
        self._clients: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def seconds_to_wait(self, client: str) -> float:
        """Count one request of a client; return 0 when it is admitted, else after how long one will be."""
        now = self._now()
        left, at = self._clients.pop(client, (self._burst, now))
        left = min(self._burst, left + max(0.0, now - at) * self._per_second)
        admitted = left >= 1.0
        self._clients[client] = (left - 1.0 if admitted else left, now)
        if len(self._clients) > MAX_CLIENTS:
            self._clients.popitem(last=False)
        return 0.0 if admitted else (1.0 - left) / self._per_second
