"""The comparison without a model: what separates success from failure, once and in general, never what is the same."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from swarm_memory.schema.memory import CANDIDATE
from swarm_memory.schema.rollout import Rollout
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Label, Step, Trajectory, Verdict
from swarm_memory.tools.distill.bounds import check_drafts
from swarm_memory.tools.judge.judge import judge_by_evidence
from swarm_memory.tools.matts.contrast import contrast_by_extraction
from swarm_memory.tools.matts.rollouts import Attempt, Lesson, combined_trajectory, numbered_attempt
from tests.matts.worlds import GREEN, RED, TASK, attempt, met, missed


def compared(*trajectories: Trajectory) -> tuple[tuple[Lesson, ...], str | None]:
    return contrast_by_extraction(as_attempts(trajectories), Settings())


def as_attempts(trajectories: Sequence[Trajectory]) -> list[Attempt]:
    same = [each.model_copy(update={"task": TASK, "task_id": "t1"}) for each in trajectories]
    return [
        numbered_attempt(rolled_out(number), each, judge_by_evidence(each, Settings()))
        for number, each in enumerate(same, 1)
    ]


def rolled_out(number: int) -> Rollout:
    return Rollout(number=number, status="finished", seed=0, temperature=0.0, trajectory_id=f"tr-{number}")


def text(lessons: Sequence[Lesson]) -> str:
    return "\n".join(f"{each.draft.title}\n{each.draft.content}" for each in lessons)


DOWN = ("kubectl apply -f app.yaml", 'error: namespaces "web" not found', 1)
UP = ("kubectl apply -f app.yaml", "deployment.apps/app created", 0)
NAMESPACE = ("kubectl create namespace web", "namespace/web created", 0)
CONTEXT = ("kubectl config use-context blue", 'Switched to context "blue".', 0)
IMAGE = ("docker build -t app .", "Successfully built 1f2e", 0)


def judged(label: Label, *commands: tuple[str, str, int]) -> Trajectory:
    """Return an attempt with the verdict in its last words, for `with_verdicts`."""
    return attempt(*commands, said=label).model_copy(update={"task": "Put the app on the cluster."})


def with_verdicts(*trajectories: Trajectory) -> tuple[tuple[Lesson, ...], str | None]:
    """Compare attempts whose verdict came from elsewhere: nothing in their calls shows it."""
    attempts: list[Attempt] = []
    for number, each in enumerate(trajectories, 1):
        label = TypeAdapter[Label](Label).validate_python(each.steps[-1].text)
        verdict = Verdict(label=label, confidence=0.0 if label == "Undecided" else 0.9, judge="agent")
        attempts.append(numbered_attempt(rolled_out(number), each, verdict))
    return contrast_by_extraction(attempts, Settings())


def test_a_action_that_one_way_past_an_error_did_without_is_a_bystander() -> None:
    lessons, _ = with_verdicts(
        judged("Success", DOWN, CONTEXT, NAMESPACE, UP),
        judged("Success", DOWN, NAMESPACE, IMAGE, UP),
        judged("Failure", DOWN),
    )
    (one,) = lessons
    assert "kubectl create namespace" in one.draft.content
    assert "use-context" not in text(lessons)
    assert "docker build" not in text(lessons)


def test_what_satisfied_an_attempts_own_test_is_no_way_for_the_others() -> None:
    mine, fast = ("echo 'test -s rows.csv' > own_test.sh", "", 0), ("sh convert.sh fast", "written", 0)
    empty, passed = ("sh verify.sh", "verify: error: rows.csv is empty", 1), ("sh verify.sh", "fine", 0)
    missing = ("sh verify.sh", "verify: error: own_test.sh is missing", 1)
    for stuck in (judged("Failure", mine, empty, empty), judged("Failure", missing, missing)):
        lessons, _ = with_verdicts(
            judged("Undecided", mine, empty, fast, passed), judged("Undecided", mine, fast, passed), stuck
        )
        assert "convert" not in text(lessons)


def test_the_way_that_most_attempts_went_is_the_lesson() -> None:
    usual = judged("Failure", DOWN, NAMESPACE, UP)
    lessons, _ = with_verdicts(judged("Success", DOWN, CONTEXT, UP), usual, usual)
    (one,) = lessons
    assert "Run `kubectl create namespace web`." in one.draft.content
    assert one.attempt.number in (2, 3)


def test_what_one_attempt_did_in_vain_did_not_help_another() -> None:
    lessons, _ = with_verdicts(
        judged("Success", DOWN, IMAGE, CONTEXT, NAMESPACE, UP), judged("Failure", DOWN, IMAGE, DOWN, CONTEXT, DOWN)
    )
    (one,) = lessons
    assert "Run `kubectl create namespace web`." in one.draft.content
    vain = next(line for line in one.draft.content.splitlines() if "did not help" in line)
    assert "docker build" in vain
    assert "use-context" in vain
    assert "Run `docker" not in one.draft.content


def test_the_same_action_after_which_the_call_had_succeeded_was_not_in_vain() -> None:
    lessons, _ = with_verdicts(judged("Success", DOWN, NAMESPACE, UP), judged("Failure", DOWN, NAMESPACE, UP, DOWN))
    assert "did not help" not in text(lessons)


def test_a_fix_counts_though_the_attempt_failed_later_on() -> None:
    lessons, _ = with_verdicts(
        judged("Failure", DOWN, NAMESPACE, UP, ("helm test app", "Error: timed out", 1)), judged("Failure", DOWN)
    )
    assert lessons[0].draft.title.startswith("Run `kubectl create namespace web` before")
    assert lessons[0].outcome == "Success", "a fix is a strategy, whatever became of the task"


def test_the_error_that_kept_failures_from_the_end_comes_first() -> None:
    lint = ("ruff check app.py", "app.py:1:1: F401 unused import\nFound 1 error.", 1)
    fixed = ("ruff check app.py --fix", "All checks passed!", 0)
    both = (lint, fixed, DOWN, NAMESPACE, UP)
    lessons, _ = with_verdicts(judged("Success", *both), judged("Success", *both), judged("Failure", lint, fixed, DOWN))
    assert "namespace" in lessons[0].draft.title


def test_the_steps_of_all_attempts_that_bear_a_fix_out_are_its_evidence() -> None:
    lessons, _ = with_verdicts(judged("Success", DOWN, NAMESPACE, UP), judged("Success", DOWN, NAMESPACE, UP))
    assert {step.partition("-")[0] for step in lessons[0].draft.evidence} == {"r1", "r2"}


LOCKED = ("git push", "fatal: Unable to create '/x/.git/index.lock': File exists", 128)


def test_an_error_of_failures_that_no_success_met_is_a_pitfall() -> None:
    lessons, _ = with_verdicts(
        judged("Success", UP), judged("Failure", LOCKED, IMAGE, LOCKED), judged("Failure", LOCKED, CONTEXT, LOCKED)
    )
    (guardrail,) = [each for each in lessons if each.outcome == "Failure"]
    assert "2 of 2 attempts that did not succeed, and in 0 of 1 that did" in guardrail.draft.content
    assert guardrail.attempt.number in (2, 3)
    vain = next(line for line in guardrail.draft.content.splitlines() if "did not help" in line)
    assert "docker build" in vain
    assert "use-context" in vain


def test_an_error_of_one_failure_alone_or_that_successes_met_too_is_no_pitfall() -> None:
    lessons, _ = with_verdicts(judged("Success", UP), judged("Failure", LOCKED, LOCKED), judged("Failure", CONTEXT))
    assert lessons == ()
    lessons, _ = compared(met(), missed())
    assert "no such table" not in "\n".join(each.draft.content for each in lessons if each.outcome == "Failure")


def test_what_only_successes_did_is_no_lesson_for_nobody_knows_whether_it_helped() -> None:
    way = (NAMESPACE, UP)
    lessons, reason = with_verdicts(judged("Success", *way), judged("Success", *way), judged("Failure", UP))
    assert lessons == ()
    assert reason == "the attempts do not differ in anything that would help with another task"


def test_of_one_success_and_one_failure_one_action_that_differs_is_a_candidate_and_two_say_nothing() -> None:
    (one,), _ = with_verdicts(judged("Success", NAMESPACE, UP), judged("Failure", DOWN))
    assert one.draft.title == "Run `kubectl create namespace web`"
    assert CANDIDATE in one.draft.tags
    assert with_verdicts(judged("Success", NAMESPACE, CONTEXT, UP), judged("Failure", DOWN))[0] == ()
    assert with_verdicts(judged("Success", NAMESPACE, UP), judged("Failure", CONTEXT, IMAGE, UP))[0] == ()
    assert with_verdicts(judged("Undecided", NAMESPACE, UP), judged("Failure", DOWN))[0] == ()


def test_attempts_that_prove_nothing_give_nothing_and_it_says_so() -> None:
    lessons, reason = compared(attempt(("ls", "a", 0)), attempt(("ls", "a", 0)))
    assert lessons == ()
    assert reason is not None
    assert "none of the 2 attempts was decided" in reason


def test_paths_secrets_and_names_of_the_task_are_not_in_the_items() -> None:
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    login = (f"gh auth login --with-token {token}", "ok", 0)
    path = ("/home/carol/acme/tools/prepare.sh --all", "ok", 0)
    attempts = as_attempts([attempt(RED, login, path, GREEN), missed()])
    lessons, _ = contrast_by_extraction(attempts, Settings())
    kept, _ = check_drafts([each.draft for each in lessons], combined_trajectory(attempts), Settings())
    said = "\n".join(draft.content + draft.title for draft in kept)
    assert "prepare.sh" in said
    assert token not in said
    assert "carol" not in said


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


@given(st.lists(st.lists(odd_steps, max_size=6), min_size=1, max_size=4))
def test_whatever_was_done_comparing_ends_with_items_that_may_be_checked(listed: list[list[dict[str, Any]]]) -> None:
    named = [
        tuple(Step.model_validate({"id": f"s{at}", "role": "assistant", **step}) for at, step in enumerate(steps))
        for steps in listed
    ]
    attempts = as_attempts([Trajectory(task_id="t", task="t", steps=steps) for steps in named])
    lessons, reason = contrast_by_extraction(attempts, Settings())
    assert len(lessons) <= 3
    assert lessons or reason
    known = {step.id for step in combined_trajectory(attempts).steps}
    assert all(set(each.draft.evidence) <= known for each in lessons)
