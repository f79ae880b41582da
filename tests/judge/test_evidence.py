"""Verdicts without a model: what was seen to happen at the end decides, and words alone never do."""

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue
from scripted_runs import Script

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.settings import JudgeSettings, Settings
from swarm_memory.schema.trajectory import Step, Trajectory, TrajectorySource, Verdict
from swarm_memory.tools.distill.distill import distill_by_extraction
from swarm_memory.tools.judge.judge import judge_by_evidence, said_verdict, weigh_agent_verdict
from swarm_memory.tools.judge.proofs import passed_task_commands
from swarm_memory.tools.trajectory.reading import read

SETTINGS = Settings()


def label(script: Script) -> str:
    return judge_by_evidence(script.done(), SETTINGS).label


def test_tests_that_pass_after_they_failed_are_a_success() -> None:
    script = Script("fix the login test").shell("pytest", "1 failed, 3 passed in 0.5s", 1)
    script.edit("/r/auth.py", "a", "b").shell("pytest", "4 passed in 0.4s").say("Done.")
    verdict = judge_by_evidence(script.done(), SETTINGS)
    assert verdict.label == "Success"
    assert verdict.confidence == 0.9
    assert {"s2", "s7"} <= set(verdict.evidence)


def test_tests_that_fail_at_the_end_are_a_failure_whatever_the_agent_says() -> None:
    script = Script("fix the login test").shell("pytest", "4 passed in 0.5s")
    script.edit("/r/auth.py", "a", "b").shell("pytest", "1 failed, 3 passed in 0.4s", 1)
    assert label(script.say("All tests pass, everything works!")) == "Failure"


def test_a_search_without_a_match_is_no_error() -> None:
    script = Script("look for it").shell("grep foo x.log", "", 1).shell("diff a b", "1c1", 1).say("There is none.")
    assert label(script) == "Undecided"


def test_checks_that_contradict_each_other_are_undecided() -> None:
    script = Script("fix it").shell("pytest", "1 failed, 3 passed in 0.4s", 1).edit("/r/a.py", "a", "b")
    script.shell("pytest", "4 passed in 0.4s").shell("cargo build", "error[E0308]: mismatched types", 101)
    verdict = judge_by_evidence(script.done(), SETTINGS)
    assert verdict.label == "Undecided"
    assert verdict.confidence == 0


def test_after_a_change_the_last_result_proves_nothing() -> None:
    for output, code, before in (("4 passed in 0.4s", 0, "Success"), ("1 failed in 0.4s", 1, "Failure")):
        tested = Script("make the tests pass").edit("/r/a.py", "a", "b").shell("pytest", output, code)
        assert label(tested) == before
        assert label(tested.edit("/r/a.py", "b", "c")) == "Undecided"


def test_an_interruption_with_nothing_after_it_is_a_failure() -> None:
    script = Script("do it").shell("rm -rf build", "").user("[Request interrupted by user]", interrupted=True)
    assert label(script) == "Failure"


ASKS = [
    "Thanks, how does it work?", "great, does that pass all tests?", "Thanks. Is it fixed now?", "So it works, right?",
    "Looks good, but did you check that it works on Windows?", "Perfect. Make sure it works on mac.", "谢谢。可以了吗",
    "Thanks and please check that all tests pass", "thanks, how does it work", "Great work!", "the page never works",
    "It works now, can you commit it?", "it should also pass on Windows", "Great, commit it if all tests pass",
]  # fmt: skip
STATES = [
    "Great, all tests pass!", "perfect, works", "Thank you, that's exactly what I wanted", "did the trick, thanks",
    "Perfect, the test suite passes. Could you also add docs?", "danke, funktioniert", "可以了。能提交吗?",
]  # fmt: skip


def test_the_users_last_word_counts_where_it_states_something() -> None:
    def said(text: str) -> str:
        return label(Script("do it").shell("npm run generate", "done").say("Done.").user(text))

    assert said("that's wrong, revert it") == "Failure"
    assert {text: said(text) for text in ASKS} == dict.fromkeys(ASKS, "Undecided")
    assert {text: said(text) for text in STATES} == dict.fromkeys(STATES, "Success")


def test_a_no_that_answers_a_question_is_no_correction() -> None:
    script = Script("book it").call("search", {"a": 1}, "three flights").say("Do you want insurance?")
    script.user("no, not needed").call("book_flight", {"a": 2}, '{"status": "booked"}').say("It is booked.")
    assert label(script) == "Undecided"


def test_calls_that_failed_and_look_ups_that_found_nothing_prove_no_failure() -> None:
    script = Script("deploy", source="steps")
    for _ in range(4):
        script.call("deploy", {"env": "test"}, "Error: quota exceeded")
    assert label(script.say("It may be deployed.")) == "Undecided"
    asked = Script("Who wrote Fidelio?", source="steps")
    for name in ("Fidelio", "Fidelio opera", "Leonore"):
        asked.call("Search", {"input": name}, f"Could not find [{name}].")
    assert label(asked) == "Undecided"
    assert label(Script("play the game").shell("./game", "Welcome!\n> \ntimed out", 124)) == "Undecided"


def test_the_threshold_of_the_settings_makes_it_undecided() -> None:
    strict = Settings(judge=JudgeSettings(min_confidence=0.99))
    script = Script("run the tests").shell("pytest", "4 passed in 0.4s")
    assert label(script) == "Success"
    assert judge_by_evidence(script.done(), strict).label == "Undecided"


# --- the agent's own verdict


def agent(name: str, confidence: float = 1.0, evidence: tuple[str, ...] = ()) -> Verdict:
    given = {"label": name, "confidence": confidence, "judge": "agent", "reasons": ("I looked",), "evidence": evidence}
    return Verdict.model_validate(given)


def weighed(script: Script, given: Verdict) -> Verdict:
    trajectory = script.done()
    return weigh_agent_verdict(given, judge_by_evidence(trajectory, SETTINGS), trajectory)


def test_the_agents_verdict_stands_where_no_evidence_speaks_against_it() -> None:
    verdict = weighed(Script("write a letter").shell("ls", "a"), agent("Success", evidence=("s2",)))
    assert (verdict.label, verdict.judge) == ("Success", "agent")
    assert verdict.confidence < 1
    unasked = Script("fix it").edit("/r/a.py", "a", "b").shell("pytest", "1 failed in 0.4s", 1)
    assert [weighed(unasked, agent(name)).label for name in ("Success", "Failure")] == ["Success", "Failure"]


@pytest.mark.parametrize(
    "script",
    [
        Script("make the tests pass").edit("/r/a.py", "a", "b").shell("pytest", "1 failed in 0.4s", 1),
        Script("do it").shell("npm run generate", "done").say("Done.").user("that's wrong, revert it"),
    ],
    ids=["tests that fail", "the user's word"],
)
def test_what_is_seen_outweighs_the_agents_verdict(script: Script) -> None:
    verdict = weighed(script, agent("Success"))
    assert (verdict.label, verdict.judge) == ("Failure", "evidence")
    assert any("I looked" in reason for reason in verdict.reasons)


def test_what_the_agent_said_by_a_tool_of_this_server_is_its_own_verdict() -> None:
    trajectory = Script("write a letter").shell("ls", "a").done()
    assert said_verdict(trajectory) is None
    said = said_verdict(trajectory.model_copy(update={"outcome": "Success"}))
    assert said is not None
    assert (said.label, said.judge) == ("Success", "agent")


def test_evidence_that_is_no_step_is_refused() -> None:
    with pytest.raises(InputError, match="s99"):
        weighed(Script("x").shell("ls"), agent("Success", evidence=("s99",)))


# --- whatever comes

TEXTS = st.sampled_from(
    ["", "Error: x", "1 failed, 2 passed in 1s", "3 passed in 1s", "no, use pnpm", "thanks", "[]", "Exit code 1\nboom",
     '{"error": 1}', "Could not find it", "\x00\ud800", "Traceback (most recent call last):\nKeyError: 'x'"]
) | st.text(max_size=60)  # fmt: skip
INPUTS = st.none() | st.dictionaries(
    st.sampled_from(["command", "file_path", "query", "old_string", "new_string", "x"]),
    st.sampled_from(["pytest", "npm test", "ls | wc", "a\nb"]) | st.integers() | st.none() | st.lists(st.text()),
    max_size=4,
)  # fmt: skip


@st.composite
def soups(draw: st.DrawFn) -> Trajectory:
    steps: list[Step] = []
    for number in range(draw(st.integers(0, 14))):
        steps.append(
            Step(
                id=f"s{number}",
                kind=draw(st.sampled_from(["message", "thought", "tool_call", "observation"])),
                role=draw(st.sampled_from(["user", "assistant", "tool", "system"])),
                text=draw(TEXTS),
                tool_name=draw(st.none() | st.sampled_from(["Bash", "Edit", "Search", "finish", "book_it"])),
                tool_input=cast("dict[str, JsonValue] | None", draw(INPUTS)),
                call_id=draw(st.none() | st.sampled_from(["a", "b"])),
                is_error=draw(st.none() | st.booleans()),
                exit_code=draw(st.none() | st.integers(0, 2)),
                interrupted=draw(st.booleans()),
            )
        )
    sources: list[TrajectorySource] = ["claude_code", "messages", "steps", "agent"]
    source = draw(st.sampled_from(sources))
    return Trajectory(task_id="t", task=draw(TEXTS), steps=tuple(steps), source=source)


@given(soups())
def test_any_steps_in_any_order_give_a_verdict_and_drafts_within_the_limits_and_talk_alone_none(
    trajectory: Trajectory,
) -> None:
    verdict = judge_by_evidence(trajectory, SETTINGS)
    assert 0 <= verdict.confidence <= 0.97
    assert (verdict.label == "Undecided") == (verdict.confidence == 0)
    assert set(verdict.evidence) <= {step.id for step in trajectory.steps}
    distilled = distill_by_extraction(trajectory, verdict, SETTINGS)
    assert len(distilled.drafts) <= 3
    assert bool(distilled.drafts) != bool(distilled.reason)
    for draft in distilled.drafts:
        assert len(draft.title) <= 80
        assert len(draft.content.splitlines()) <= 8
        assert set(draft.evidence) <= {step.id for step in trajectory.steps}
    talk = tuple(step for step in trajectory.steps if step.kind != "tool_call")
    assert judge_by_evidence(trajectory.model_copy(update={"steps": talk}), SETTINGS).label == "Undecided"


TASK = "Bring the site up to date with `publisher push site`."


def reached(script: Script) -> list[str]:
    return [call.name for call in passed_task_commands(read(script.done()))]


def explored() -> Script:
    script = Script(TASK)
    for command in ("publisher push site", "publisher status x", "publisher push site", "publisher init"):
        script.shell(command, "publisher: error: E17", 3)
    return script


def test_what_the_task_names_going_through_outweighs_the_errors_of_exploring() -> None:
    assert label(explored()) == "Undecided"
    assert label(explored().shell("publisher push site", "pushed")) == "Success"


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("publisher push site || true", "pushed, all tests passed", 0),
        ("publisher push site | tail -3", "pushed, all tests passed", 0),
        ("publisher push site; echo done", "done", 0),
        ("publisher push site --dry-run", "all tests passed", 0),
        ("publisher push --help", "all tests passed", 0),
        ("echo 'publisher push site'", "all tests passed", 0),
        ("publisher push site", "all tests passed, 0 errors", 3),
        ("publisher push other", "pushed", 0),
    ],
)
def test_words_and_codes_of_something_else_are_no_success(command: str, output: str, code: int) -> None:
    assert label(explored().shell(command, output, code)) != "Success"


def test_of_several_things_named_all_must_go_through() -> None:
    script = Script("Run `feed load cats` and `feed load dogs`.").shell("feed load cats", "error: busy", 1)
    script.shell("feed load cats", "loaded")
    assert label(script) == "Undecided"
    script.shell("feed load dogs", "error: busy", 1)
    assert label(script) == "Undecided"
    assert label(script.shell("feed load dogs", "loaded")) == "Success"


def test_a_tool_that_took_what_it_was_given_proves_nothing() -> None:
    script = Script("File the report with `file_case`.", source="agent")
    script.call("file_case", {"text": "x"}, "Error: text is too short", error=True)
    assert label(script.call("file_case", {"text": "xx"}, '{"status": "saved"}', error=False)) == "Undecided"


def test_without_the_hosts_word_nothing_went_through() -> None:
    script = Script(TASK, source="steps").call("Bash", {"command": "publisher push site"}, "pushed, exit code fine")
    assert reached(script) == []


def test_a_file_or_a_symbol_in_backticks_is_no_goal() -> None:
    script = Script("Mend `auth.py`, the function `login`.").shell("cat auth.py", "def login(): ...")
    assert reached(script) == []


def test_what_went_through_is_not_undone_by_one_more_call_unless_something_was_written_between() -> None:
    script = Script(TASK).shell("publisher push site", "pushed")
    assert reached(script.shell("publisher push site", "error: 429 Too Many Requests", 1)) == ["publisher"]
    script.edit("/r/site.toml", "a", "b").shell("publisher push site", "error: bad site.toml", 1)
    assert reached(script) == []
