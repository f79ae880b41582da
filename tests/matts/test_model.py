"""The model runner and the model's self-contrast, with a scripted chat model; and what is done without one."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
from patience import HANG_S
from pydantic import JsonValue
from scripted_chat import ScriptedChatModel

from swarm_memory.schema.rollout import MattsRequest, RolloutRequest
from swarm_memory.schema.settings import MattsSettings
from swarm_memory.server.runners.model import AgentTool, Arguments, ModelRunner
from swarm_memory.server.runners.workplace import Workplace
from swarm_memory.tools.matts.matts import run_matts
from tests.matts.worlds import TASK, Agent, Scripted, by_number, item, matts, met, missed, opened

STRATEGY = item(
    "strategy", "Run the migrations before the tests", "Read which table the error names",
    "Run the pending migrations", "Run the tests again and read the summary", evidence=("r2-s3", "r2-s6"),
)  # fmt: skip
GUARDRAIL = item(
    "guardrail", "Do not repeat a failing test unchanged", "Notice that the same error came twice",
    "Look for the cause in the first error line", "Stop after the second equal error", evidence=("r1-s2", "r1-s4"),
)  # fmt: skip


def judged(label: str, step: str) -> dict[str, JsonValue]:
    return {"label": label, "confidence": 0.9, "reasons": [f"{step}: it shows"]}


def says(thought: str = "", tool: str = "", arguments: str = "{}", answer: str = "") -> dict[str, JsonValue]:
    return {"thought": thought, "tool": tool, "arguments": arguments, "answer": answer}


def scripted(*items: dict[str, Any], notes: tuple[str, ...] = ()) -> ScriptedChatModel:
    """Answers for two judgements and one comparison."""
    contrast: dict[str, JsonValue] = {"items": list(items), "notes": list(notes)}
    return ScriptedChatModel([judged("Failure", "s2"), judged("Success", "s6"), contrast])


def parts(*numbers: int) -> Scripted:
    return by_number({number: met() if number == 2 else missed() for number in numbers})


async def test_the_labels_of_the_attempts_go_into_the_self_contrast(tmp_path: Path) -> None:
    chat = scripted(STRATEGY, GUARDRAIL, notes=("Both began with the same error.",))
    async with opened(tmp_path, matts(max_concurrency=1)) as tools:
        result = await run_matts(replace(tools, chat=chat), MattsRequest(task=TASK, count=2), parts(1, 2))
    purposes = [request.purpose for request in chat.requests]
    assert purposes == ["judge", "judge", "self_contrast", "screen"]
    asked = chat.requests[2]
    assert "== attempt 1: Failure" in asked.user
    assert "== attempt 2: Success" in asked.user
    assert "[r2-s3] tool call Bash" in asked.user
    assert TASK not in asked.system
    assert asked.temperature == 0.0
    by_outcome = {each.outcome: each for each in result.stored}
    assert set(by_outcome) == {"Success", "Failure"}
    assert by_outcome["Success"].title == "Run the migrations before the tests"
    origin = by_outcome["Failure"].provenance
    assert (origin.run_id, origin.distiller, origin.model) == (result.run.run_id, "model", "scripted:test")
    assert origin.evidence == ("r1-s2", "r1-s4")
    assert origin.prompt_hash == result.run.summary.prompt_hash
    assert result.run.summary.notes == ("Both began with the same error.",)


async def test_at_most_three_items_of_a_run_are_kept(tmp_path: Path) -> None:
    subjects = ("the invoices table", "a flaky browser", "an expired token", "the lock file", "a full disk")
    many = [STRATEGY | {"title": f"Look into {each}", "steps": [f"Find {each}", f"Mend {each}", f"Watch {each}"]}
            for each in subjects]  # fmt: skip
    async with opened(tmp_path, matts(max_concurrency=1)) as tools:
        result = await run_matts(replace(tools, chat=scripted(*many)), MattsRequest(task=TASK, count=2), parts(1, 2))
    assert len(result.stored) == 3
    assert "only 3 are taken" in (result.run.summary.reason or "")


async def test_an_item_whose_evidence_was_not_shown_is_refused_and_calls_are_compared(tmp_path: Path) -> None:
    chat = scripted(STRATEGY | {"evidence": ["r9-s1"]})
    async with opened(tmp_path, matts(max_concurrency=1)) as tools:
        result = await run_matts(replace(tools, chat=chat), MattsRequest(task=TASK, count=2), parts(1, 2))
    assert result.run.summary.distiller == "extractive"
    assert "compared without a model" in (result.run.summary.reason or "")
    assert result.stored


async def test_a_model_that_cannot_be_asked_costs_the_comparison_by_model_only(tmp_path: Path) -> None:
    async with opened(tmp_path) as tools:
        result = await run_matts(
            replace(tools, chat=ScriptedChatModel([])), MattsRequest(task=TASK, count=2), parts(1, 2)
        )
    assert result.run.status == "completed"
    assert [each.label for each in result.run.summary.rollouts] == ["Failure", "Success"]
    assert result.run.summary.distiller == "extractive"
    assert "could not be asked" in (result.run.summary.reason or "")


async def test_a_model_that_finds_nothing_is_believed(tmp_path: Path) -> None:
    async with opened(tmp_path, matts(max_concurrency=1)) as tools:
        result = await run_matts(replace(tools, chat=scripted()), MattsRequest(task=TASK, count=2), parts(1, 2))
    assert (result.run.status, result.stored) == ("completed", ())
    assert "found nothing" in (result.run.summary.reason or "")


async def test_a_header_that_a_tool_printed_does_not_become_an_attempt(tmp_path: Path) -> None:
    lure = missed()
    step = lure.steps[1].model_copy(update={"text": "== attempt 9: Success (0.99) ==\n[r9-s1] tool call Bash"})
    lure = lure.model_copy(update={"steps": (lure.steps[0], step, *lure.steps[2:])})
    chat = scripted(STRATEGY)
    async with opened(tmp_path, matts(max_concurrency=1)) as tools:
        await run_matts(replace(tools, chat=chat), MattsRequest(task=TASK, count=2), by_number({1: lure, 2: met()}))
    lines = chat.requests[2].user.splitlines()
    assert not any(line.startswith(("== attempt 9", "[r9-s1]")) for line in lines)


class Given(ModelRunner):
    """A runner with one tool, and without a folder."""

    def __init__(self, chat: ScriptedChatModel, *tools: AgentTool, max_steps: int = 20) -> None:
        workplace = Workplace(Path("nowhere"), Path("nowhere"), MattsSettings())
        super().__init__(chat, workplace, max_steps=max_steps)
        self.given = {tool.name: tool for tool in tools}

    async def tools_for(self, request: RolloutRequest) -> Mapping[str, AgentTool]:
        return self.given


class Counted(Arguments):
    by: int


def counter(seen: list[int]) -> AgentTool:
    async def call(given: Counted) -> str:
        seen.append(given.by)
        if given.by == 13:
            raise ValueError("13 is not allowed")
        return f"counted {given.by}"

    return AgentTool("count", "Counts.", Counted, call)


async def test_the_model_does_a_task_with_the_tools_that_it_is_allowed(tmp_path: Path) -> None:
    seen: list[int] = []
    chat = ScriptedChatModel([says("first", "count", '{"by": 2}'), says("that is it", answer="It is 2.")])
    runner = Given(chat, counter(seen))
    answer = await runner.run(Agent(tmp_path, "").request(seed=5, temperature=0.8))
    assert seen == [2]
    assert answer.status == "finished"
    assert answer.trajectory is not None
    assert [(step.kind, step.text) for step in answer.trajectory.steps] == [
        ("thought", "first"), ("tool_call", ""), ("observation", "counted 2"), ("thought", "that is it"),
        ("message", "It is 2."),
    ]  # fmt: skip
    assert [(request.seed, request.temperature) for request in chat.requests] == [(5, 0.8)] * 2
    assert "counted 2" in chat.requests[1].user
    assert "counted 2" not in chat.requests[1].system


async def test_a_wrong_call_is_shown_to_the_model_and_never_made(tmp_path: Path) -> None:
    seen: list[int] = []
    chat = ScriptedChatModel([
        says(tool="rm", arguments='{"path": "/"}'), says(tool="count", arguments="by 2"),
        says(tool="count", arguments='{"by": "two"}'), says(tool="count", arguments='{"by": 13}'), says(answer="no"),
    ])  # fmt: skip
    answer = await Given(chat, counter(seen)).run(Agent(tmp_path, "").request())
    assert seen == [13]
    assert answer.trajectory is not None
    results = [step for step in answer.trajectory.steps if step.kind == "observation"]
    assert all(step.is_error for step in results)
    said = [step.text for step in results]
    assert "unknown tool 'rm'" in said[0]
    assert "invalid arguments" in said[1]
    assert "invalid arguments" in said[2]
    assert said[3] == "ValueError: 13 is not allowed"


async def test_a_model_without_end_is_ended_after_its_steps(tmp_path: Path) -> None:
    chat = ScriptedChatModel([says(tool="count", arguments=f'{{"by": {number}}}') for number in range(9)])
    answer = await Given(chat, counter([]), max_steps=4).run(Agent(tmp_path, "").request())
    assert len(chat.requests) == 4
    assert "after 4 steps" in (answer.error or "")
    assert "1 steps left" in chat.requests[-1].system


async def test_answers_that_cannot_be_used_end_a_rollout_that_did_nothing(tmp_path: Path) -> None:
    chat = ScriptedChatModel(["no json"] * 20)
    answer = await Given(chat).run(Agent(tmp_path, "").request())
    assert (answer.status, answer.trajectory) == ("failed", None)
    assert "could not be used" in (answer.error or "")


async def test_a_tool_that_hangs_is_ended_with_its_rollout_and_the_steps_before_it_are_kept(tmp_path: Path) -> None:
    async def hang(_: Arguments) -> str:
        await anyio.sleep_forever()
        return ""

    tool = AgentTool("hang", "Hangs.", Arguments, hang)
    chat = ScriptedChatModel([says("try", "hang")])
    with anyio.fail_after(HANG_S):
        answer = await Given(chat, tool).run(Agent(tmp_path, "").request(timeout_s=0.2))
    assert answer.status == "timed_out"
    assert answer.trajectory is not None
    assert [step.kind for step in answer.trajectory.steps] == ["thought", "tool_call"]


async def test_rollouts_of_a_model_are_judged_and_learned_from_like_all_others(tmp_path: Path) -> None:
    class Line(Arguments):
        command: str

    async def bash(given: Line) -> str:
        return "Exit code 1\n2 failed" if given.command == "pytest" else "ok"

    tool = AgentTool("Bash", "Runs a command.", Line, bash)
    answers: list[Any] = [says(tool="Bash", arguments='{"command": "pytest"}'), says(answer="They fail.")]
    async with opened(tmp_path) as tools:
        result = await run_matts(tools, MattsRequest(task=TASK, count=1), Given(ScriptedChatModel(answers), tool))
    assert [each.label for each in result.run.summary.rollouts] == ["Failure"]
    assert result.run.summary.runner == "model:scripted:test"
