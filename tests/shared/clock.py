"""A clock that stands still until a test sets it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@dataclass
class SetClock:
    """Shows the moment it is set to."""

    at: datetime = NOW

    def now(self) -> datetime:
        return self.at

    def forward(self, **by: float) -> None:
        """Set it forward by what makes a `timedelta`."""
        self.at += timedelta(**by)


class Watch:
    """Seconds, as a test sets them."""

    at = 100.0

    def __call__(self) -> float:
        return self.at
