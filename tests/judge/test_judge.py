"""How evidence and model are brought together: hard evidence holds, and the reasons of both are kept."""

from hypothesis import given, settings
from hypothesis import strategies as st

from swarm_memory.schema.trajectory import Judge, Label, Verdict
from swarm_memory.tools.judge.judge import combine


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
