"""A model as the distiller: what it is asked, which of its items are kept, and what happens without a model."""

import json
from typing import cast

import pytest
from pydantic import JsonValue
from records import HOSTILE, LURE, broken, call, message, outside_the_fence, record, repaired, result
from scripted_chat import ScriptedAnswer, ScriptedChatModel

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.schema.memory import Distillation
from swarm_memory.schema.settings import DistillSettings, Settings
from swarm_memory.schema.trajectory import Label, Trajectory, Verdict
from swarm_memory.tools.distill.corrections import USERS_WORD
from swarm_memory.tools.distill.distill import distill_with_fallback
from swarm_memory.tools.distill.model import distill_by_model
from swarm_memory.tools.model.ask import load_prompt
from swarm_memory.tools.ports.models import ChatModel

SETTINGS = Settings()
TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
STEPS = (
    "Run the tests once and read the first error before any change",
    "When a settings file is missing, look for an example file beside it",
    "Copy the example and run the same tests again: they must pass",
)


def item(title: JsonValue = "Copy the example settings before the tests", **changes: JsonValue) -> dict[str, JsonValue]:
    plain: dict[str, JsonValue] = {
        "title": title,
        "description": "Of use when a test run stops because a settings file is missing.",
        "steps": list(STEPS),
        "not_when": "",
        "domain": "python.testing",
        "tags": ["pytest"],
        "evidence": ["s3", "s4"],
    }
    return plain | changes


def items(*given: dict[str, JsonValue]) -> ScriptedAnswer:
    return {"analysis": "The missing file was the cause.", "items": list(given)}


def verdict(label: Label, *reasons: str) -> Verdict:
    sure = 0.0 if label == "Undecided" else 0.9
    return Verdict(label=label, confidence=sure, reasons=reasons or ("s7: they pass",), judge="model", model="m-1")


async def by_model(model: ChatModel, trajectory: Trajectory, judged: Verdict, settings: Settings) -> Distillation:
    return (await distill_by_model(model, trajectory, judged, settings))[0]


async def distilled(*given: dict[str, JsonValue], trajectory: Trajectory | None = None) -> Distillation:
    return await by_model(ScriptedChatModel([items(*given)]), trajectory or repaired(), verdict("Success"), SETTINGS)


async def test_an_item_becomes_a_draft_with_numbered_steps_and_its_evidence() -> None:
    found = await distilled(item())
    (draft,) = found.drafts
    assert draft.title == "Copy the example settings before the tests"
    assert draft.description.startswith("Of use when")
    assert draft.content == "\n".join(f"{number}. {step}" for number, step in enumerate(STEPS, 1))
    assert draft.evidence == ("s3", "s4")
    assert (found.distiller, found.model, found.reason) == ("model", "scripted:test", None)
    assert found.prompt_hash == load_prompt("distill_success").hash


async def test_one_sentence_gets_no_number_and_limits_stand_on_the_last_line() -> None:
    said = "Do not use it when the settings file is generated. It would be overwritten."
    found = await distilled(
        item(steps=STEPS[0], not_when=said), item("Copy it", steps=list(STEPS[1:]), not_when="None."),
        item("Copy it again", steps=[STEPS[2]], not_when="Projects that generate it."),
    )  # fmt: skip
    assert [draft.content for draft in found.drafts] == [
        f"{STEPS[0]}\nLimits: {said}",
        f"1. {STEPS[1]}\n2. {STEPS[2]}",
        f"{STEPS[2]}\nLimits: Projects that generate it.",
    ]


async def test_domain_and_tags_are_the_models_few_and_without_what_is_of_one_machine_or_the_rules_own() -> None:
    first: list[JsonValue] = ["Pytest", "pytest", "repair", "https://corp.example/x", TOKEN, "sixth"]
    second: list[JsonValue] = ["anna@example.com", "c++"]
    found = await distilled(
        item(tags=first, domain="Python.Testing"), item("Another", steps=STEPS[0], tags=second, domain=TOKEN)
    )
    assert [draft.tags for draft in found.drafts] == [("pytest",), ("c++",)]
    assert [draft.domain for draft in found.drafts] == ["python.testing", None]


async def test_the_model_thinks_before_it_writes_items() -> None:
    model = ScriptedChatModel([items()])
    await by_model(model, repaired(), verdict("Success"), SETTINGS)
    schema = model.requests[0].answer_schema
    assert schema is not None
    assert list(cast("dict[str, object]", schema["properties"])) == ["analysis", "items"]
    assert schema["required"] == ["analysis", "items"]
    assert "$ref" not in json.dumps(schema)


async def test_success_asks_for_strategies_and_failure_for_guardrails() -> None:
    model = ScriptedChatModel([items(), items()])
    two = Settings(distill=DistillSettings(max_items_per_traj=2))
    success = await by_model(model, repaired(), verdict("Success"), SETTINGS)
    failure = await by_model(model, broken(), verdict("Failure"), two)
    strategies, guardrails = model.requests
    assert "at most 3 items" in strategies.user
    assert "at most 2 guardrails" in guardrails.user
    assert success.prompt_hash != failure.prompt_hash
    assert success.reason == "the model found nothing that would help another task"


@pytest.mark.parametrize("hostile", HOSTILE)
async def test_task_reasons_and_steps_stay_inside_the_fence(hostile: str) -> None:
    model = ScriptedChatModel([items()])
    trajectory = broken(hostile).model_copy(update={"task": hostile})
    await by_model(model, trajectory, verdict("Failure", hostile), SETTINGS)
    assert LURE in model.requests[0].user
    assert LURE not in outside_the_fence(model.requests[0])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"steps": []}, "its steps have 0 characters instead of 1 to 1,200"),
        ({"steps": [" "], "not_when": "It is Sunday."}, "its steps have 0 characters instead of 1 to 1,200"),
        ({"steps": ["word " * 70] * 4}, "its steps have 1,411 characters instead of 1 to 1,200"),
        ({"steps": [TOKEN]}, "nothing is left of it once what belongs to one machine or person"),
        ({"title": "t" * 201}, "title: String should have at most 200 characters"),
        ({"title": TOKEN}, "nothing is left of it once what belongs to one machine or person"),
        ({"description": "d" * 501}, "description: String should have at most 500 characters"),
        ({"evidence": []}, "its evidence names no step that was shown"),
        ({"evidence": ["s77", "somewhere"]}, "its evidence names no step that was shown"),
    ],
)
async def test_an_item_that_may_not_be_kept_is_named_with_a_reason(changes: dict[str, JsonValue], reason: str) -> None:
    found = await distilled(item(**changes), item("Look at the examples", steps=[*STEPS, "Say what was done"]))
    assert [draft.title for draft in found.drafts] == ["Look at the examples"]
    assert str(found.reason).startswith("item 1: ")
    assert reason in str(found.reason)


async def test_what_is_of_a_services_customer_is_taken_out() -> None:
    trajectory = record(
        message("user", "Cancel the order of the customer."),
        call("get_order", order_id="W2378156", customer_name="Anna Kowalska"),
        result('{"status": "open", "email": "anna.k@example.com"}'),
        call("cancel_order", order_id="W2378156"),
        result('{"status": "cancelled"}'),
    )
    steps: list[JsonValue] = [
        "Look up order W2378156 of Anna Kowalska before cancelling it",
        f"Use the key {TOKEN} from /home/anna/shop/.env",
        "Open https://shop.corp.example/orders/77 and write to anna.k@example.com",
    ]
    title = "Check the state of Anna Kowalska before cancelling"
    found = await distilled(item(title, steps=steps, evidence=["s2"]), trajectory=trajectory)
    (draft,) = found.drafts
    text = f"{draft.title}\n{draft.description}\n{draft.content}"
    for part in ("W2378156", "Anna", "Kowalska", TOKEN, "/home/anna", "shop.corp", "anna.k@", "https://"):
        assert part not in text
    assert "before cancelling" in text


async def test_numbers_that_the_model_wrote_itself_are_not_doubled_and_lines_are_joined() -> None:
    steps: list[JsonValue] = ["1. Read the\nerror", "Step 2: mend it", "- run the tests again", "3 tries at most"]
    found = await distilled(item(steps=steps, evidence=["[s3]", "step s4"]))
    assert found.drafts[0].content.splitlines() == [
        "1. Read the error", "2. mend it", "3. run the tests again", "4. 3 tries at most"
    ]  # fmt: skip
    assert found.drafts[0].evidence == ("s3", "s4")


async def test_names_of_the_project_stay_and_so_do_ids_of_commits_times_and_relative_paths() -> None:
    trajectory = record(
        message("user", "Add the export."),
        call("Bash", command="cat package.json"),
        result('{"name": "@acme/web-app", "id": "W2378156"}'),
        call("Bash", command="pnpm --filter @acme/web-app test"),
        result("12 passed"),
    )
    steps = ["Run `pnpm --filter @acme/web-app test`, as `git show c1feea4` does for W2378156.",
             "Line 42 of `/home/kim/shop/app/dates.ts` writes 2026-02-03T09:00:00Z."]  # fmt: skip
    model = ScriptedChatModel([items(item("Test @acme/web-app", steps=list[JsonValue](steps), evidence=["s3"]))])
    found, _ = await distill_by_model(model, trajectory, verdict("Success"), SETTINGS, "/home/kim/shop")
    (draft,) = found.drafts
    assert draft.title == "Test @acme/web-app"
    assert draft.content == f"1. {steps[0]}\n2. {steps[1].replace('/home/kim/shop/', '')}"


async def test_repeated_items_and_those_beyond_the_limit_are_refused_one_by_one() -> None:
    given = [item(f"Rule {number}", steps=[*STEPS, f"End with check {number}"]) for number in (1, 1, 2, 3, 4)]
    found = await distilled(*given)
    assert [draft.title for draft in found.drafts] == ["Rule 1", "Rule 2", "Rule 3"]
    assert found.reason == "item 2: says the same as an earlier one; from item 5 on: the limit per trajectory is 3"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ([ModelUnavailable("the endpoint is down")], "the model could not be asked: the endpoint is down"),
        (["Sure!", "Yes."], "the model's answer cannot be used: "),
        ([items(item(evidence=[]))], "item 1: its evidence names no step"),
    ],
)
async def test_without_items_of_the_model_they_are_extracted_and_the_reason_says_so(
    script: list[ScriptedAnswer], why: str
) -> None:
    found = await distill_with_fallback(ScriptedChatModel(script), repaired(), verdict("Success"), SETTINGS)
    assert (found.distiller, found.prompt_hash, found.model) == ("extractive", None, None)
    assert found.drafts
    assert str(found.reason).startswith(f"distilled without a model: {why}")


async def test_a_model_that_finds_nothing_worth_keeping_is_believed() -> None:
    found = await distill_with_fallback(ScriptedChatModel([items()]), repaired(), verdict("Success"), SETTINGS)
    assert (found.distiller, found.drafts) == ("model", ())


async def test_of_an_undecided_trajectory_only_what_it_proves_is_extracted() -> None:
    model = ScriptedChatModel([])
    found = await distill_with_fallback(model, repaired(), verdict("Undecided"), SETTINGS)
    assert (found.distiller, model.requests) == ("extractive", [])


async def test_what_the_user_laid_down_is_kept_whatever_the_model_makes_of_it() -> None:
    said = "Mend the settings. From now on, always write commit messages in English."
    mended = record(*(step.model_dump(exclude={"id"}) for step in repaired().steps), task=said)
    trajectory = mended.model_copy(update={"source": "claude_code"})
    model = ScriptedChatModel([items(), items(item(tags=["said", "user-correction", "git"]))])
    silent = await distill_with_fallback(model, trajectory, verdict("Success"), SETTINGS)
    assert [(draft.title, USERS_WORD in draft.tags) for draft in silent.drafts] == [
        ("From now on, always write commit messages in English", True)
    ]
    spoken = await distill_with_fallback(model, trajectory, verdict("Success"), SETTINGS)
    assert [USERS_WORD in draft.tags for draft in spoken.drafts] == [True, False]
    assert spoken.drafts[1].tags == ("git",)
