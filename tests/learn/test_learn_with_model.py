"""The loop with a chat model: which model and prompt an item came from, and what is done without one."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from laid_bank import opened_bank
from pydantic import JsonValue
from records import repaired
from scripted_chat import ScriptedAnswer, ScriptedChatModel, chain_of
from served import ran

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelWindowTooSmall
from swarm_memory.schema.trajectory import Step, Verdict
from swarm_memory.server.jobs.transcripts import import_files
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.model.ask import load_prompt
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.toolbox import Toolbox

ITEM: dict[str, JsonValue] = {
    "title": "Look for an example of a missing settings file",
    "description": "Of use when a test run stops because a settings file is missing.",
    "steps": ["Read the first error", "Look for an example beside the missing file", "Copy it and run the tests again"],
    "evidence": ["s3", "s4"],
}


@asynccontextmanager
async def bank(folder: Path, answers: Sequence[ScriptedAnswer]) -> AsyncGenerator[tuple[Toolbox, ScriptedChatModel]]:
    """A toolbox with a scripted chat model, on a fresh database."""
    model = ScriptedChatModel(answers)
    async with opened_bank(folder / "memory.db", chat=model) as toolbox:
        yield toolbox, model


def verdict(label: str, confidence: float) -> dict[str, JsonValue]:
    return {"label": label, "confidence": confidence, "reasons": ["s6, s7: the last test run shows it"]}


async def test_what_is_stored_names_judge_distiller_model_prompt_and_steps(tmp_path: Path) -> None:
    async with bank(tmp_path, [verdict("Success", 0.9), {"items": [ITEM]}]) as (tools, model):
        learned = await learn(tools, repaired())
    assert [request.purpose for request in model.requests] == ["judge", "distill", "screen"]
    (item,) = learned.stored
    origin = item.provenance
    assert (origin.judge, origin.distiller, origin.model) == ("model", "model", "scripted:test")
    assert origin.prompt_hash == load_prompt("distill_success").hash
    assert origin.evidence == ("s3", "s4")
    assert item.confidence == pytest.approx(learned.verdict.confidence * 0.7, abs=1e-3)


async def test_an_item_is_found_by_the_domain_and_the_tags_that_the_model_gave_it(tmp_path: Path) -> None:
    refined: dict[str, JsonValue] = {
        **ITEM, "domain": "Python.Testing", "tags": "settings", "not_when": "the file is made by the build",
    }  # fmt: skip
    async with bank(tmp_path, [verdict("Success", 0.9), {"analysis": "", "items": refined}]) as (tools, _):
        (item,) = (await learn(tools, repaired())).stored
        for only in (MemoryFilter(domain="python.testing"), MemoryFilter(tags=("settings",))):
            assert [found.id for found in await tools.store.list_memories([tools.scope], only)] == [item.id]
    assert item.content.splitlines()[-1] == "Limits: the file is made by the build"


async def test_a_task_is_learned_from_with_a_refusing_a_weak_and_a_good_model_each_named(tmp_path: Path) -> None:
    refusing = ScriptedChatModel([ModelAnswerInvalid("I cannot")] * 9, name="refusing:m")
    weak = ScriptedChatModel(["Well, it depends."] * 9, name="weak:m")
    answers: list[ScriptedAnswer] = [verdict("Success", 0.9), {"items": [ITEM]}, {"items": []}]
    good = ScriptedChatModel(answers, name="good:m")
    async with bank(tmp_path, []) as (tools, _):
        learned = await learn(replace(tools, chat=chain_of(refusing, weak, good)), repaired())
    (item,) = learned.stored
    assert (learned.verdict.model, item.provenance.model) == ("good:m", "good:m")


async def test_a_model_of_a_tiny_window_that_writes_almost_json_judges_and_distills(tmp_path: Path) -> None:
    tiny = ModelWindowTooSmall("4096 tokens at most")
    item = json.dumps(ITEM)[:-1] + ",}"
    answers = [
        tiny, tiny, '<think>They pass.</think> {"label": "success", "confidence": "0.8", "reasons": "s7: they pass"}',
        tiny, tiny, f"Sure! Here is it:\n```json\n{{\"items\": [{item}]}}\n```",
    ]  # fmt: skip
    async with bank(tmp_path, answers) as (tools, model):
        learned = await learn(tools, repaired())
    assert (learned.verdict.label, learned.verdict.model) == ("Success", "scripted:test")
    assert [stored.title for stored in learned.stored] == [ITEM["title"]]
    assert len(model.requests[2].user) <= len(model.requests[0].user)


async def test_no_model_is_asked_about_a_task_that_the_hosts_connection_broke_off(tmp_path: Path) -> None:
    done = repaired()
    said = Step(id="end", kind="message", role="system", text="API Error: Connection error.", is_error=True)
    async with bank(tmp_path, []) as (tools, model):
        learned = await learn(tools, done.model_copy(update={"steps": (*done.steps, said)}))
    assert (learned.verdict.label, learned.stored, model.requests) == ("Undecided", (), [])


async def test_the_agents_own_verdict_asks_no_model_to_judge(tmp_path: Path) -> None:
    own = Verdict(label="Success", confidence=0.9, judge="agent")
    async with bank(tmp_path, [{"items": [ITEM]}]) as (tools, model):
        learned = await learn(tools, repaired(), agent_verdict=own)
    assert (learned.verdict.judge, [request.purpose for request in model.requests]) == ("agent", ["distill", "screen"])


async def test_what_rules_left_undecided_is_judged_again_once_a_model_may_be_asked(tmp_path: Path) -> None:
    async def report(_: object) -> None: ...

    steps = [step for number in range(12) for step in ran(f"c{number}", f"cat part{number}.txt", "some words")]
    (file := tmp_path / "run.json").write_text(
        json.dumps({"id": "t-1", "task": "Put the parts in order", "steps": steps})
    )
    async with bank(tmp_path, [verdict("Success", 0.9), {"items": [ITEM]}]) as (tools, model):
        alone = await import_files(replace(tools, chat=None), [file], False, report)
        assert (alone.verdicts, alone.worth_a_model, model.requests) == ({"Undecided": 1}, 1, [])
        asked = await import_files(tools, [file], False, report)
        assert (asked.verdicts, asked.stored, asked.known, asked.worth_a_model) == ({"Success": 1}, 1, 0, 0)
        count = len(model.requests)
        again = await import_files(tools, [file], False, report)
        assert (again.verdicts, again.known, len(model.requests)) == ({"Success": 1}, 1, count)
