"""How evidence and model are brought together: hard evidence holds, both are kept, and what is audited is drawn."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import broken, repaired

from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Judge, Label, Verdict
from swarm_memory.tools.judge.evidence import Signal, signals_of
from swarm_memory.tools.judge.judge import (
    Judged,
    audit_event,
    combine,
    confusion,
    hard_label,
    is_audited,
    judge_by_evidence,
    without_model,
)

FAILED = Signal("check_failed", -2.4, "pytest failed", ("s5",), "check")
STALE = Signal("check_failed", -1.2, "pytest failed before the last change", ("s5",), "check")
PASSED = Signal("check_passed", 2.0, "pytest passed", ("s7",), "check")
SOFT = Signal("late_error", -2.5, "an error was not resolved", ("s5",), "tool")


def verdict(label: Label, confidence: float, judge: Judge, reason: str = "because", *steps: str) -> Verdict:
    model = "m-1" if judge == "model" else None
    sure = 0.0 if label == "Undecided" else confidence
    return Verdict(label=label, confidence=sure, reasons=(reason,), evidence=steps, judge=judge, model=model)


def found(label: Label, confidence: float = 0.8) -> Verdict:
    return verdict(label, confidence, "evidence", "a check said so", "s5")


def said(label: Label, confidence: float = 0.9) -> Verdict:
    return verdict(label, confidence, "model", "it looks so", "s6")


VERDICTS = st.sampled_from(("Success", "Failure", "Undecided"))
SURE = st.floats(0.6, 0.97)


def test_tests_that_failed_at_the_end_outweigh_a_models_success_and_both_are_kept() -> None:
    trajectory = broken()
    signals = signals_of(trajectory)
    evidence = judge_by_evidence(trajectory, Settings())
    result = combine(evidence, said("Success"), signals, 0.6)
    assert (result.label, result.judge, result.model) == ("Failure", "evidence", "m-1")
    assert result.confidence == evidence.confidence
    assert result.reasons[0] == "hard evidence of failure outweighs the model's Success"
    assert any(reason.startswith("evidence (Failure") for reason in result.reasons)
    assert "model (Success 0.90): it looks so" in result.reasons


@settings(max_examples=60)
@given(VERDICTS, SURE, SURE)
def test_no_model_turns_a_check_that_failed_at_the_end_into_a_success(
    label: Label, evidence_sure: float, model_sure: float
) -> None:
    result = combine(found(label, evidence_sure), said("Success", model_sure), (FAILED,), 0.6)
    assert result.label != "Success" or label == "Success"


@settings(max_examples=60)
@given(VERDICTS, VERDICTS, SURE, SURE, st.sampled_from([(), (FAILED,), (PASSED,), (FAILED, PASSED), (SOFT,)]))
def test_reasons_of_both_are_kept_and_an_undecided_verdict_has_no_confidence(
    of_evidence: Label, of_model: Label, evidence_sure: float, model_sure: float, signals: tuple[Signal, ...]
) -> None:
    result = combine(found(of_evidence, evidence_sure), said(of_model, model_sure), signals, 0.6)
    assert any("a check said so" in reason for reason in result.reasons)
    assert any("it looks so" in reason for reason in result.reasons)
    assert set(result.evidence) == {"s5", "s6"}
    assert result.model == "m-1"
    assert (result.confidence == 0) == (result.label == "Undecided")
    assert result.label in (of_evidence, of_model, "Undecided")


def test_where_one_is_undecided_the_other_stands() -> None:
    by_model = combine(found("Undecided"), said("Failure", 0.7), (), 0.6)
    assert (by_model.label, by_model.confidence, by_model.judge) == ("Failure", 0.7, "model")
    by_evidence = combine(found("Success", 0.75), said("Undecided"), (PASSED,), 0.6)
    assert (by_evidence.label, by_evidence.confidence, by_evidence.judge) == ("Success", 0.75, "evidence")
    assert combine(found("Undecided"), said("Undecided"), (), 0.6).label == "Undecided"


def test_undecided_evidence_with_a_failed_check_does_not_let_a_success_stand() -> None:
    assert combine(found("Undecided"), said("Success"), (FAILED,), 0.6).label == "Undecided"
    assert combine(found("Undecided"), said("Success"), (STALE,), 0.6).label == "Success"


def test_where_both_agree_the_surer_counts() -> None:
    result = combine(found("Success", 0.95), said("Success", 0.8), (PASSED,), 0.6)
    assert (result.label, result.confidence, result.judge) == ("Success", 0.95, "model")


def test_of_two_that_contradict_each_other_the_surer_wins_with_what_is_left() -> None:
    result = combine(found("Failure", 0.65), said("Success", 0.9), (SOFT,), 0.6)
    assert (result.label, result.judge) == ("Success", "model")
    assert result.confidence == pytest.approx(0.868), "0.9 / 0.1 over the root of 0.65 / 0.35"
    even = combine(found("Success", 0.88), said("Failure", 0.9), (PASSED,), 0.6)
    assert even.label == "Undecided"
    surer = combine(found("Failure", 0.95), said("Success", 0.7), (SOFT,), 0.6)
    assert (surer.label, surer.judge) == ("Failure", "evidence")


def test_hard_is_a_check_that_nothing_was_changed_after_and_that_none_contradicts() -> None:
    assert hard_label((FAILED, SOFT)) == "Failure"
    assert hard_label((PASSED,)) == "Success"
    assert hard_label((PASSED, FAILED)) is None
    assert hard_label((STALE, SOFT)) is None
    trajectory = repaired()
    assert hard_label(signals_of(trajectory)) == "Success"


def test_evidence_alone_says_first_why_no_model_was_heard() -> None:
    full = found("Success").model_copy(update={"reasons": tuple(f"r{number}" for number in range(20))})
    result = without_model(full, "the endpoint is down")
    assert result.reasons[0] == "judged by the evidence alone: the endpoint is down"
    assert (len(result.reasons), result.label) == (20, "Success")


@pytest.mark.parametrize("rate", [0.0, 0.05, 0.5, 1.0])
def test_the_share_of_audited_verdicts_is_the_rate(rate: float) -> None:
    ids = [f"tr_{number}" for number in range(4000)]
    share = sum(is_audited(each, rate) for each in ids) / len(ids)
    assert abs(share - rate) <= 0.02
    assert [is_audited(each, rate) for each in ids] == [is_audited(each, rate) for each in ids]


@settings(max_examples=60)
@given(st.text())
def test_what_is_audited_at_a_low_rate_is_audited_at_a_higher_one(trajectory_id: str) -> None:
    assert is_audited(trajectory_id, 1.0)
    assert is_audited(trajectory_id, 0.3) or not is_audited(trajectory_id, 0.05)


def test_an_audit_compares_the_model_with_the_evidence_where_one_judged() -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    judged = Judged(found("Failure"), found("Failure"), said("Success"))
    event = audit_event("tr_1", judged, at, rate=1.0)
    assert event is not None
    assert (event.kind, event.subject_id, event.at) == ("judge.audited", "tr_1", at)
    assert event.data == {"model": "Success", "evidence": "Failure", "combined": "Failure", "judge": "m-1"}
    assert audit_event("tr_1", judged, at, rate=0.0) is None
    assert audit_event("tr_1", Judged(found("Failure"), found("Failure"), None), at, rate=1.0) is None


def test_the_confusion_table_counts_model_against_evidence() -> None:
    table = confusion(
        [("Success", "Success"), ("Success", "Failure"), ("Success", "Failure"), ("Undecided", "Success")]
    )
    assert table["Success"] == {"Success": 1, "Failure": 2, "Undecided": 0}
    assert table["Failure"] == {"Success": 0, "Failure": 0, "Undecided": 0}
    assert table["Undecided"]["Success"] == 1
