"""The rule of credit: signs, sizes, bounds."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_memory.schema.outcome import UseMethod
from swarm_memory.schema.trajectory import Label
from swarm_memory.tools.credit.outcome import change_for, credited

LABELS, METHODS = st.sampled_from(get_args(Label)), st.sampled_from(get_args(UseMethod))


@pytest.mark.parametrize(
    ("label", "method", "change"),
    [
        ("Success", "cited", 0.05),
        ("Success", "overlap", 0.05),
        ("Success", "none", 0.0125),
        ("Failure", "cited", -0.025),
        ("Failure", "overlap", -0.025),
        ("Failure", "none", -0.00625),
        ("Undecided", "cited", 0.0),
        ("Undecided", "none", 0.0),
    ],
)
def test_use_counts_more_than_injection_and_success_more_than_failure(
    label: Label, method: UseMethod, change: float
) -> None:
    assert change_for(label, method) == pytest.approx(change)


@given(st.floats(0, 1), st.lists(st.tuples(LABELS, METHODS), max_size=60))
def test_confidence_stays_between_nothing_and_certainty(
    confidence: float, outcomes: list[tuple[Label, UseMethod]]
) -> None:
    for label, method in outcomes:
        confidence = credited(confidence, change_for(label, method))
        assert 0 <= confidence <= 1
