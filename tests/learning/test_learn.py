"""The loop: what is stored, what is not stored twice, and what is said when something is missing."""

from collections.abc import Sequence
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted_runs import MemoryBank, Script, toolbox

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.settings import LearnSettings, Settings
from swarm_memory.schema.verdict import Verdict
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.tools.archive import archivable
from swarm_memory.tools.learn import ASSUMED_CONFIDENCE, REINFORCEMENT, learn
from swarm_memory.tools.ports import Vector

EMBEDDER = StaticEmbedder()
TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"


class Unreachable:
    """An embedder whose endpoint does not answer."""

    name, dimensions, fusion_weight, min_cosine = "remote", 8, 0.5, 0.3
    quantization: Literal["int8", "float32"] = "float32"

    async def embed_query(self, text: str) -> Vector:
        raise ModelUnavailable("the endpoint did not answer")

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        raise ModelUnavailable("the endpoint did not answer")


def repaired(task_id: str = "t1", task: str = "run the tests of the billing service") -> Script:
    script = Script(task, task_id=task_id).shell("npm test", "sh: 1: vitest: not found", 127)
    return script.shell("pnpm install", "Done").shell("pnpm test", "Tests  21 passed (21)").say("ok")


@pytest.fixture
def bank() -> MemoryBank:
    return MemoryBank()


async def test_a_trajectory_is_judged_distilled_and_stored_with_where_it_came_from(bank: MemoryBank) -> None:
    result = await learn(toolbox(bank, EMBEDDER), repaired().done())
    assert result.status == "learned"
    assert result.verdict.label == "Success"
    item = result.stored[0]
    assert item == bank.items[item.id]
    assert item.outcome == "Success"
    assert item.confidence == pytest.approx(result.verdict.confidence * 0.7, abs=1e-3)
    assert (item.provenance.task_id, item.provenance.judge, item.provenance.distiller) == (
        "t1",
        "evidence",
        "extractive",
    )
    assert (item.provenance.trajectory_id, item.provenance.run_id) == (result.trajectory_id, result.run_id)
    assert set(item.provenance.evidence) <= {step.id for step in bank.records[0].trajectory.steps}
    assert bank.vectors[item.id] is not None


async def test_learning_twice_from_the_same_trajectory_changes_nothing(bank: MemoryBank) -> None:
    first = await learn(toolbox(bank, EMBEDDER), repaired().done())
    before = bank.everything()
    second = await learn(toolbox(bank, EMBEDDER), repaired().done())
    assert bank.everything() == before
    assert second.status == "already_learned"
    assert (second.trajectory_id, second.verdict) == (first.trajectory_id, first.verdict)
    assert second.stored == ()
    assert second.reason


async def test_what_the_bank_already_says_is_reinforced_and_not_stored_again(bank: MemoryBank) -> None:
    first = await learn(toolbox(bank, EMBEDDER), repaired("t1").done())
    second = await learn(toolbox(bank, EMBEDDER), repaired("t2").done())
    assert second.status == "nothing_new"
    assert second.reinforced == (first.stored[0].id,)
    assert second.reason is not None
    assert "already says" in second.reason
    assert len(bank.active) == 1
    assert bank.active[0].confidence == pytest.approx(first.stored[0].confidence + REINFORCEMENT)


async def test_trust_does_not_rise_by_repetition_within_one_task(bank: MemoryBank) -> None:
    first = await learn(toolbox(bank, EMBEDDER), repaired().done())
    longer = await learn(toolbox(bank, EMBEDDER), repaired().shell("git status", "clean").say("ok").done())
    assert longer.reinforced == (first.stored[0].id,)
    assert bank.active[0].confidence == first.stored[0].confidence


async def test_items_of_an_earlier_version_of_the_task_that_no_longer_hold_are_superseded(bank: MemoryBank) -> None:
    first = await learn(toolbox(bank, EMBEDDER), repaired().done())
    other = Script("run the tests of the billing service").shell("make deploy", "DATABASE_URL is not set", 2)
    other.shell("export DATABASE_URL=sqlite:// && make deploy", "ok").say("ok")
    second = await learn(toolbox(bank, EMBEDDER), other.done())
    assert second.superseded == (first.stored[0].id,)
    assert [item.id for item in bank.active] == [item.id for item in second.stored]


async def test_nothing_to_learn_keeps_the_trajectory_and_says_why(bank: MemoryBank) -> None:
    result = await learn(toolbox(bank, EMBEDDER), Script("say hello").say("hello").done())
    assert (result.status, result.stored) == ("nothing_new", ())
    assert result.reason
    assert len(bank.records) == 1
    assert bank.records[0].verdict.label == "Undecided"


async def test_a_failing_embedder_costs_only_the_vectors_and_is_told(bank: MemoryBank) -> None:
    result = await learn(toolbox(bank, Unreachable()), repaired().done())
    assert result.status == "learned"
    assert bank.vectors[result.stored[0].id] is None
    assert result.reason is not None
    assert "the endpoint did not answer" in result.reason
    again = await learn(toolbox(bank, Unreachable()), repaired("t2").done())
    assert again.status == "nothing_new"


async def test_a_guardrail_of_a_failure_is_trusted_less(bank: MemoryBank) -> None:
    script = Script("fix the failing build").shell("cargo build", "error[E0308]: mismatched types", 101)
    script.edit("/r/src/main.rs", "u32", "u64").shell("cargo build", "error[E0308]: mismatched types", 101)
    result = await learn(toolbox(bank, EMBEDDER), script.say("I was unable to fix it.").done())
    item = result.stored[0]
    assert item.outcome == "Failure"
    assert item.confidence == pytest.approx(result.verdict.confidence * 0.6, abs=1e-3)


async def test_the_agent_may_bring_its_own_verdict_and_items(bank: MemoryBank) -> None:
    verdict = Verdict(label="Success", confidence=0.9, judge="agent", reasons=("the user has it",))
    drafts = [MemoryDraft(title="Ask for the format first", content="1. Ask which format is wanted.")]
    drafts.append(MemoryDraft(title=TOKEN, content=TOKEN))
    trajectory = Script("write the letter").shell("ls", "a").say("Here it is.").done()
    result = await learn(toolbox(bank, EMBEDDER), trajectory, agent_verdict=verdict, agent_drafts=drafts)
    assert [item.title for item in result.stored] == ["Ask for the format first"]
    assert (result.verdict.judge, result.distiller) == ("agent", "agent")
    assert result.stored[0].confidence == pytest.approx(0.63)
    assert result.reason is not None
    assert "item 2" in result.reason


async def test_items_of_an_undecided_trajectory_start_with_an_assumed_confidence(bank: MemoryBank) -> None:
    script = Script("convert the videos").shell("ffmpeg -i a b", "bash: ffmpeg: command not found", 127)
    script.shell("apt-get install -y ffmpeg", "ok").shell("ffmpeg -i a b", "frame=1").say("ok")
    result = await learn(toolbox(bank, EMBEDDER), script.done())
    assert result.verdict.label == "Undecided"
    assert result.stored[0].confidence == pytest.approx(ASSUMED_CONFIDENCE * 0.7)


async def test_consolidation_is_due_when_the_bank_says_so(bank: MemoryBank) -> None:
    base = (await learn(toolbox(bank, EMBEDDER), repaired().done())).stored[0]
    for number in range(19):
        bank.items[f"rm_{number}"] = base.model_copy(update={"id": f"rm_{number}", "title": f"Other {number}"})
    result = await learn(toolbox(bank, EMBEDDER), Script("say hello", task_id="t9").say("hello").done())
    assert result.consolidation_due


SECRETS = st.sampled_from([TOKEN, "AKIA" + "IOSFODNN7EXAMPLQ", "sk-ant-api03-" + "x1Y2z3A4b5C6d7E8" * 5 + "AA"])


@given(secret=SECRETS, places=st.sets(st.integers(0, 7), min_size=1))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_secret_of_the_trajectory_is_stored_wherever_it_stood(secret: str, places: set[int]) -> None:
    bank = MemoryBank()

    def at(place: int) -> str:
        return f" {secret} " if place in places else " x "

    script = Script("deploy it" + at(0)).shell(f"TOKEN={at(1).strip()} make deploy", "Error: not logged in" + at(2), 2)
    script.edit("/r/a.py", "a" + at(3), "b" + at(4)).user("no, use the other key" + at(5))
    script.shell("make deploy" + at(6), "ok").say("Done" + at(7))
    await learn(toolbox(bank, EMBEDDER), script.done())
    assert secret not in bank.everything()


def test_a_kept_trajectory_is_bounded_and_keeps_its_end() -> None:
    script = Script("long").say("x" * 5000)
    for number in range(60):
        script.shell(f"echo {number}", str(number))
    limits = Settings(learn=LearnSettings(max_steps=20, max_step_chars=300))
    kept = archivable(script.done(), limits)
    assert len(kept.steps) == 20
    assert kept.dropped_steps == 122 - 20
    assert kept.steps[-1].text == "59"
    assert max(len(step.text) for step in kept.steps) <= 300
    assert archivable(kept, limits) == kept
