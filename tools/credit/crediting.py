"""The rule of credit: how much a task's outcome changes the confidence of a memory that it was given."""

from swarm_memory.schema.outcome import UseMethod
from swarm_memory.schema.settings import CreditSettings
from swarm_memory.schema.trajectory import Label

FAILURE_FACTOR = -0.5
"""A failure weighs half as much as a success: it has more causes than the memory."""

_DIGITS = 9


def change_for(label: Label, method: UseMethod, settings: CreditSettings) -> float:
    """Return the change of confidence: +η for a success, half of η less for a failure, 0 when undecided.

    A memory that was injected and not seen to be used gets `injected_weight` of it.
    """
    if label == "Undecided":
        return 0.0
    change = settings.eta if label == "Success" else FAILURE_FACTOR * settings.eta
    return round(change if method != "none" else change * settings.injected_weight, _DIGITS)


def credited(confidence: float, change: float) -> float:
    """Return the confidence after a change, clamped to 0…1."""
    return min(1.0, max(0.0, round(confidence + change, _DIGITS)))
