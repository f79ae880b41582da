"""The error tree, split by who can act: the caller, the operator, the database, a model or another server."""

from typing import cast

OUT_OF_RAM = "the process ran out of RAM; nothing was left half-written; send less at a time"
_SIGNS = ("can't start new thread", "failed to map segment", "cannot allocate memory")


def is_out_of_ram(error: BaseException | None) -> bool:
    """Whether an error says that the process ran out of RAM, also while starting a thread or loading a library."""
    if isinstance(error, BaseExceptionGroup):
        grouped = cast("BaseExceptionGroup[BaseException]", error)
        return any(is_out_of_ram(each) for each in grouped.exceptions)
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | ImportError | OSError) and any(sign in str(error).lower() for sign in _SIGNS)
    )


class SwarmMemoryError(Exception):
    """Base of all errors of swarm-memory. The message says what to change."""


class InputError(SwarmMemoryError):
    """An argument is wrong; the message names it and what it may be."""


class NotFoundError(InputError):
    """No row with this id in the caller's scope."""


class NotAllowed(SwarmMemoryError):
    """The caller's role is not enough; the message names the one that is needed. Nothing was done."""


class ConfigError(SwarmMemoryError):
    """A setting, a file or the installation is wrong; the operator can fix it."""


class QuotaReached(ConfigError):
    """Agents and hooks have added as many memories to a project as they may in a day; nothing was written."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"nothing more is learned in this project today: agents and hooks may add {limit:,} memories a day. What "
            "the bank holds is still used, and what hooks left waiting is learned tomorrow (UTC). Raise "
            "learn.max_new_per_day in your own settings, continue tomorrow, or learn from the transcript with "
            "`swarm-memory learn`, which has no limit"
        )


class StorageError(SwarmMemoryError):
    """The database refused an operation; nothing was left half written."""


class StoreBusy(StorageError):
    """The writer lock was not free before the deadline; nothing was written."""


class StoreReadOnly(StorageError):
    """The database can be read but not written."""


class StoreUntrusted(StorageError):
    """The file is not a swarm-memory bank, or is one of a newer version; it was left untouched."""


class StoreDamaged(StorageError):
    """The file does not hold what was written to it; it was left untouched."""


class StoreFull(StorageError):
    """The disk or a quota is full; nothing was written."""


class StoreReplaced(StorageError):
    """The open file was replaced by another one or removed; nothing was written."""


class TeamUnavailable(SwarmMemoryError):
    """The team's server could not be reached, or gave no usable answer."""


class ModelError(SwarmMemoryError):
    """A chat model or an embedding endpoint failed."""


class ModelUnavailable(ModelError):
    """The endpoint could not be reached, or did not answer within its time limit."""


class ModelWindowTooSmall(ModelUnavailable):
    """The request, with the room for its answer, is longer than the model's context window."""


class ModelAnswerInvalid(ModelError):
    """The endpoint answered with something that must not be used."""
