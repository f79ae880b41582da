"""Blocks that are of one moment: a transaction that writes all or nothing, and a look that sees one state."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection


@contextmanager
def transaction(connection: "Connection", kind: Literal["IMMEDIATE", "EXCLUSIVE"]) -> Generator[None]:
    """Write the block in one transaction: committed at its end, undone by an exception."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        _undo(connection)
        raise


@contextmanager
def one_moment(connection: "Connection") -> Generator[None]:
    """Have all that is read in the block be of one moment."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        _undo(connection)


def _undo(connection: "Connection") -> None:
    if connection.in_transaction:  # SQLite undoes one itself where it has no memory or no disk
        connection.execute("ROLLBACK")
