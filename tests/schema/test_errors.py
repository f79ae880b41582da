"""Which errors say that memory is short."""

import pytest

from swarm_memory.schema.errors import is_want_of_memory


@pytest.mark.parametrize(
    ("error", "is_short"),
    [
        (MemoryError(), True),
        (RuntimeError("can't start new thread"), True),
        (ImportError("libopenblas.so: failed to map segment from shared object"), True),
        (OSError(12, "Cannot allocate memory"), True),
        (ExceptionGroup("tasks", [ExceptionGroup("inner", [MemoryError()])]), True),
        (RuntimeError("no such table"), False),
        (ImportError("No module named 'numpy'"), False),
        (ValueError("can't start new thread"), False),
        (None, False),
    ],
)
def test_a_thread_or_a_library_that_finds_no_room_is_want_of_memory(
    error: BaseException | None, is_short: bool
) -> None:
    assert is_want_of_memory(error) is is_short
