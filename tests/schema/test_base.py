"""The ids of rows, stable keys, and which errors mean that memory is short."""

import re
import time

import pytest

from swarm_memory.schema.base import new_id
from swarm_memory.schema.errors import is_out_of_ram
from swarm_memory.schema.memory import Provenance
from swarm_memory.schema.team.sharing import Evidence

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def test_an_id_is_a_ulid_of_its_kind_that_sorts_by_time() -> None:
    before = time.time_ns() // 1_000_000
    made = [new_id("job") for _ in range(1000)]
    after = time.time_ns() // 1_000_000
    assert len(set(made)) == 1000
    assert all(re.fullmatch(r"job_[0-7][0-9A-HJKMNP-TV-Z]{25}", each) for each in made)
    times = [0] * 1000
    for number, each in enumerate(made):
        for sign in each.removeprefix("job_")[:10]:
            times[number] = times[number] * 32 + CROCKFORD.index(sign)
    assert [before, *times, after] == sorted([before, *times, after])
    assert [each[:14] for each in made] == sorted(each[:14] for each in made)


def test_fields_that_were_renamed_keep_their_keys_in_banks_and_on_the_wire() -> None:
    for value, key in ((Evidence(shown=3), "told"), (Provenance(repeats_shown=True), "hearsay")):
        kept = value.model_dump(mode="json", exclude_defaults=True)
        assert kept.keys() == {key}
        assert type(value).model_validate(kept) == value


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
def test_a_thread_or_a_library_that_finds_no_room_is_out_of_ram(error: BaseException | None, is_short: bool) -> None:
    assert is_out_of_ram(error) is is_short
