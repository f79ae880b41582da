"""Who writes: the person whose id every new row carries."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_author: ContextVar[str | None] = ContextVar("author", default=None)


def author() -> str | None:
    """Return the id of the person for whom this transaction runs; None: the bank's own user."""
    return _author.get()


@contextmanager
def writing_as(person_id: str | None) -> Generator[None]:
    """Have the rows that a block writes carry a person's id."""
    before = _author.set(person_id)
    try:
        yield
    finally:
        _author.reset(before)
