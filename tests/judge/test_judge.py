"""How evidence and model are brought together: hard evidence holds, both are kept, and what is audited is sampled."""

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from swarm_memory.schema.trajectory import Judge, Label, Verdict
from swarm_memory.tools.judge.judge import AUDITED, Judged, audit_event, combine, confusion
from swarm_memory.tools.ports.records import Event


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


@settings(max_examples=60)
@given(VERDICTS, VERDICTS, SURE, SURE)
def test_what_is_proven_comes_before_a_model_and_the_reasons_of_both_are_kept(
    of_evidence: Label, of_model: Label, evidence_sure: float, model_sure: float
) -> None:
    result = combine(found(of_evidence, evidence_sure), said(of_model, model_sure))
    assert any("a check said so" in reason for reason in result.reasons)
    assert any("it looks so" in reason for reason in result.reasons)
    assert set(result.evidence) == {"s5", "s6"}
    assert result.model == "m-1"
    assert (result.confidence == 0) == (result.label == "Undecided")
    if of_evidence == of_model != "Undecided":
        assert result.confidence == max(evidence_sure, model_sure)
    assert result.label == (of_model if of_evidence == "Undecided" else of_evidence)
    assert result.judge == ("model" if of_evidence in ("Undecided", of_model) else "evidence")


def test_an_audit_compares_the_model_with_the_evidence_where_one_judged() -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    judged = Judged(found("Failure"), found("Failure"), said("Success"))
    event = audit_event("tr_1", judged, at)
    assert event is not None
    assert (event.kind, event.subject_id, event.at) == ("judge.audited", "tr_1", at)
    assert event.data == {"model": "Success", "evidence": "Failure", "combined": "Failure", "judge": "m-1"}
    assert audit_event("tr_1", Judged(found("Failure"), found("Failure"), None), at) is None


def test_the_confusion_table_counts_model_against_evidence() -> None:
    pairs = (("Success", "Success"), ("Success", "Failure"), ("Success", "Failure"), ("Undecided", "Success"))
    shown: list[dict[str, JsonValue]] = [{"model": "Perfect", "evidence": ["Success"]}, {}]
    shown.extend({"model": said, "evidence": found} for said, found in pairs)
    table = confusion(Event(AUDITED, datetime(2026, 3, 1, tzinfo=UTC), "tr_1", data) for data in shown)
    assert table["Success"] == {"Success": 1, "Failure": 2, "Undecided": 0}
    assert table["Failure"] == {"Success": 0, "Failure": 0, "Undecided": 0}
    assert table["Undecided"]["Success"] == 1
