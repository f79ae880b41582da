"""A clock that stands still until a test sets it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@dataclass
class SetClock:
    """A clock that shows the moment it is set to."""

    at: datetime = NOW

    def now(self) -> datetime:
        return self.at

    def forward(self, **by: float) -> None:
        """Move the clock forward; the arguments are those of `timedelta`."""
        self.at += timedelta(**by)


class Watch:
    """A monotonic clock whose seconds a test sets."""

    at = 100.0

    def __call__(self) -> float:
        return self.at
