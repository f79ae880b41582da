"""When a call is tried again: growing pauses, and what an endpoint itself asks for."""

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

RETRIED_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential back-off with jitter, never shorter than what the endpoint asks for."""

    base_s: float = 0.5
    cap_s: float = 8.0
    longest_wait_s: float = 30.0
    """An endpoint that asks for more is given up at once."""

    def delay_s(self, attempt: int, retry_after_s: float | None) -> float | None:
        """Return the seconds to wait after failed try number `attempt` (from 0); None: not worth waiting."""
        if retry_after_s is not None and retry_after_s > self.longest_wait_s:
            return None
        grown: float = min(self.cap_s, self.base_s * 2.0 ** min(attempt, 30))
        # Half of it is random, so that callers who failed together do not come back together.
        return max(grown * random.uniform(0.5, 1.0), retry_after_s or 0.0)


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds that `Retry-After` asks for (RFC 9110 §10.2.3: seconds or a date); None: no sound value."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "").strip()
    seconds = _number(value)
    return seconds if seconds is not None else _until(value, now or datetime.now(UTC))


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return max(number, 0.0) if math.isfinite(number) else None


def _until(value: str, now: datetime) -> float | None:
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max((at - now).total_seconds(), 0.0)
