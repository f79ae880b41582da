"""Which finished tasks a model is asked about."""

import pytest

from swarm_memory.tools.learn.worth import LONG, LONG_S, is_worth_asking


@pytest.mark.parametrize(
    ("failed", "said", "worth"),
    [
        ([], ["that is wrong"], False),
        ([False], [], False),
        ([True, False], [], True),
        ([False], ["From now on write dates in UTC"], True),
        ([False] * (LONG - 1), ["thanks"], False),
        ([False] * (LONG - 1), ["No, that is wrong: use pnpm"], True),
        ([False] * LONG, [], True),
    ],
)
def test_a_model_is_asked_about_what_is_long_or_failed_somewhere_or_was_corrected(
    failed: list[bool], said: list[str], worth: bool
) -> None:
    assert is_worth_asking(failed, said) is worth
    assert is_worth_asking(failed, said, LONG_S) is bool(failed)
