"""How numbers of things are told."""

import pytest

from swarm_memory.schema.base import counted


@pytest.mark.parametrize(
    ("number", "noun", "told"),
    [
        (0, "memory", "0 memories"),
        (1, "memory", "1 memory"),
        (2, "new memory", "2 new memories"),
        (1, "tool call", "1 tool call"),
        (5, "day", "5 days"),
        (12_345, "passage", "12,345 passages"),
    ],
)
def test_one_thing_is_told_in_the_singular_and_others_in_the_plural(number: int, noun: str, told: str) -> None:
    assert counted(number, noun) == told
