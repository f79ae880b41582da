"""A session that its host wrote down twice is judged by what was done once."""

from hypothesis import given
from hypothesis import strategies as st
from scripted_runs import Script

from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Step
from swarm_memory.tools.judge import judge_by_evidence
from swarm_memory.tools.replay import without_replay


def session() -> Script:
    script = Script("write the parser for dates").say("I will.").edit("/r/dates.py", "a", "b")
    script.user("[Request interrupted by user]", interrupted=True).user("use the ISO form").say("So I do.")
    return script.shell("pytest", "6 passed in 0.1s").say("Done.")


def told_again(script: Script) -> Script:
    script.user("write the parser for dates").say("I will.")
    return script.user("[Request interrupted by user]", interrupted=True).user("use the ISO form").say("So I do.")


def test_an_interruption_that_is_only_told_again_is_not_the_end() -> None:
    once, twice = session().done(), told_again(session()).done()
    assert without_replay(twice).steps == once.steps
    assert judge_by_evidence(twice, Settings()) == judge_by_evidence(once, Settings())
    assert judge_by_evidence(twice, Settings()).label == "Success"


def test_what_comes_after_the_second_telling_stays() -> None:
    script = told_again(session()).shell("pytest", "1 failed in 0.1s", 1)
    assert judge_by_evidence(script.done(), Settings()).label == "Failure"


def test_a_task_that_is_asked_for_again_is_no_replay() -> None:
    script = session().user("write the parser for dates").shell("pytest", "1 failed in 0.1s", 1)
    assert without_replay(script.done()) == script.done()


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=12))
def test_no_call_is_ever_taken_out(texts: list[str]) -> None:
    script = Script("a")
    for number, text in enumerate(texts):
        script.user(text) if number % 3 else script.shell(text, text)
    kept = without_replay(script.done()).steps

    def calls(steps: tuple[Step, ...]) -> list[str]:
        return [step.id for step in steps if step.kind == "tool_call"]

    assert calls(kept) == calls(script.done().steps)
