"""The comparison without a model: what parts success from failure, said once, generally, and never what is the same."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import GREEN, MIGRATE, RED, TASK, attempt, met, missed

from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.tools.contrast import Attempt, Drawn, contrast_by_extraction, merged, numbered
from swarm_memory.tools.distill import check_drafts
from swarm_memory.tools.judge import judge_by_evidence

LOGIN = ("az login --identity", "logged in", 0)
DEPLOY = ("az webapp up", "deployed", 0)


def compared(*trajectories: Trajectory, best: int = 1) -> tuple[tuple[Drawn, ...], str | None]:
    attempts = as_attempts(trajectories)
    return contrast_by_extraction(attempts, best, Settings(), 3)


def as_attempts(trajectories: Sequence[Trajectory]) -> list[Attempt]:
    told = [each.model_copy(update={"task": TASK, "task_id": "t1"}) for each in trajectories]
    return [
        numbered(number, f"tr-{number}", each, judge_by_evidence(each, Settings()))
        for number, each in enumerate(told, 1)
    ]


def text(drawn: Sequence[Drawn]) -> str:
    return "\n".join(f"{each.draft.title}\n{each.draft.content}" for each in drawn if "contrast" in each.draft.tags)


def test_a_deed_of_most_successes_and_of_no_failure_is_a_pattern() -> None:
    drawn, _ = compared(met(), met(), missed(), attempt(GREEN))
    assert "Do `alembic upgrade head`: done in 2 of 3 attempts that met the task, in none of the 1" in text(drawn)


def test_a_deed_that_a_failure_did_too_is_none() -> None:
    drawn, _ = compared(met(), attempt(RED, MIGRATE, RED))
    assert "Do `alembic upgrade head`: done" not in text(drawn)


def test_that_the_tests_pass_in_the_end_is_no_pattern() -> None:
    drawn, _ = compared(met(), missed())
    assert "Do `pytest" not in text(drawn)


def test_an_order_that_only_successes_kept_is_a_pattern() -> None:
    seed = ("python -m shop.seed", "seeded", 0)
    right, wrong = attempt(MIGRATE, seed, GREEN), attempt(seed, MIGRATE, RED)
    drawn, _ = compared(right, right, wrong)
    said = text(drawn)
    assert "Do `alembic upgrade head` before `shop.seed" in said or "Do `alembic upgrade head` before `python" in said
    assert "seed` before `alembic" not in said


def test_an_error_of_failures_that_no_success_met_is_a_pitfall() -> None:
    locked = ("git push", "fatal: Unable to create '/x/.git/index.lock': File exists", 128)
    drawn, _ = compared(attempt(GREEN), attempt(locked, RED), attempt(locked, RED), best=1)
    (guardrail,) = [each for each in drawn if each.outcome == "Failure"]
    assert "`git push` failed" in guardrail.draft.content
    assert "2 of 2 attempts that did not meet the task, in none of the 1 that did" in guardrail.draft.content
    assert guardrail.attempt in (2, 3)


def test_an_error_that_successes_met_too_is_no_pitfall() -> None:
    drawn, _ = compared(met(), missed())
    assert "no such table" not in "\n".join(each.draft.content for each in drawn if each.outcome == "Failure")


def test_a_call_repeated_without_change_is_a_pitfall() -> None:
    looping = attempt(*[("curl localhost:8080/health", "", 7)] * 3, RED)
    drawn, _ = compared(attempt(GREEN), looping, best=1)
    assert any(
        "3 times with the same arguments" in each.draft.content or "curl" in each.draft.content for each in drawn
    )


def test_attempts_that_prove_nothing_give_nothing_and_it_says_so() -> None:
    drawn, reason = compared(attempt(("ls", "a", 0)), attempt(("ls", "a", 0)))
    assert drawn == ()
    assert reason is not None
    assert "no attempt was decided" in reason


def test_paths_secrets_and_names_of_the_task_are_not_in_the_items() -> None:
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    login = (f"gh auth login --with-token {token}", "ok", 0)
    path = ("/home/carol/acme/tools/prepare.sh --all", "ok", 0)
    attempts = as_attempts([attempt(login, path, GREEN), missed()])
    drawn, _ = contrast_by_extraction(attempts, 1, Settings(), 3)
    kept, _ = check_drafts([each.draft for each in drawn], merged(attempts), Settings())
    said = "\n".join(draft.content + draft.title for draft in kept)
    assert "prepare.sh" in said
    assert token not in said
    assert "carol" not in said


def test_ids_of_several_attempts_stand_beside_each_other() -> None:
    attempts = as_attempts([met(), met()])
    steps = merged(attempts).steps
    assert len({step.id for step in steps}) == len(steps)
    assert {step.id.partition("-")[0] for step in steps} == {"r1", "r2"}
    assert len({step.call_id for step in steps if step.call_id}) == 6


kinds = st.sampled_from(["tool_call", "observation", "message", "thought"])
odd_steps = st.fixed_dictionaries(
    {
        "kind": kinds,
        "text": st.text(max_size=60),
        "tool_name": st.sampled_from(["Bash", "Edit", "look", None]),
        "tool_input": st.dictionaries(st.sampled_from(["command", "path", "x"]), st.text(max_size=40) | st.integers()),
        "call_id": st.sampled_from(["c1", "c2", None]),
        "is_error": st.sampled_from([True, False, None]),
    }
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(odd_steps, max_size=6), min_size=1, max_size=4))
def test_whatever_was_done_comparing_ends_with_items_that_may_be_checked(listed: list[list[dict[str, Any]]]) -> None:
    named = [
        tuple(Step.model_validate({"id": f"s{at}", "role": "assistant", **step}) for at, step in enumerate(steps))
        for steps in listed
    ]
    attempts = as_attempts([Trajectory(task_id="t", task="t", steps=steps) for steps in named])
    drawn, reason = contrast_by_extraction(attempts, 1, Settings(), 3)
    assert len(drawn) <= 3
    assert drawn or reason
    known = {step.id for step in merged(attempts).steps}
    assert all(set(each.draft.evidence) <= known for each in drawn)
