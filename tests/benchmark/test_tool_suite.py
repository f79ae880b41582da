"""The tool memory benchmark: its questions, its mock tools, who chooses, a run from beginning to end."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scripted_chat import ScriptedAnswer, ScriptedChatModel

from swarm_memory.schema.benchmark import BenchmarkRun
from swarm_memory.schema.errors import InputError, ModelAnswerInvalid
from swarm_memory.tools.benchmark.tool_choice.mock_tools import (
    BUSY,
    DESCRIPTION,
    LEVELS,
    PROFILES,
    TOOLS,
    ChatChooser,
    GuidanceReader,
    LeveledQuestion,
    best_tool,
    questions_of,
    search,
)
from swarm_memory.tools.toolbox import Toolbox
from tests.benchmark.conftest import benchmarked, interrupted

GUIDANCE = """
## `SearchToolA`
Last 20: success 90% [70%, 97%] (n=20); score 50% [30%, 70%] (n=20). Guidelines: extractive.
- Best for: calls about "capital" (9 of 9 good)

## `SearchToolB`
Last 20: success 60% [40%, 78%] (n=20); score 60% [40%, 78%] (n=20).
- Worst for: calls about "capital" (0 of 9 good)
"""


def test_the_own_questions_are_120_different_ones() -> None:
    _, *found = questions_of()
    assert len({each.text.lower() for part in found for each in part}) == 120
    assert {sum(each.level == level for each in part) for part in found for level in LEVELS} == {20}


def test_mock_tools_succeed_and_fit_as_often_as_the_table_says() -> None:
    for level in LEVELS:
        for tool in TOOLS:
            sampled = [search(7, 1, "test", LeveledQuestion(f"What about topic {n}?", level), tool) for n in range(500)]
            profile = PROFILES[tool][level]
            answered = [each.output for each in sampled if each.success]
            assert abs(len(answered) / 500 - profile.success) < 0.08
            assert abs(sum("about topic" in each for each in answered) / len(answered) - profile.relevance) < 0.1


def test_nothing_that_an_agent_sees_says_which_tool_is_good() -> None:
    asked = [LeveledQuestion("What is a fjord?", level) for level in LEVELS for _ in range(50)]
    outputs = [search(7, n, "test", each, tool) for n, each in enumerate(asked) for tool in TOOLS]
    said = " ".join(each.output for each in outputs).lower()
    assert not [word for word in (*map(str.lower, TOOLS), *LEVELS, "relevan", "quality") if word in said]
    assert not [word for word in (*LEVELS, "best", "fast") if word in DESCRIPTION.lower()]
    assert all(each.output == BUSY for each in outputs if not each.success)


FORMS = """
## `SearchToolA`
Last 20: score 50% [30%, 70%] (n=20)
- Best for: requests that begin with "who" or "when": 9 of 9 good here
- Worst for: requests about "tides": 1 of 9 good here, others 9 of 9

## `SearchToolB`
Last 20: score 50% [30%, 70%] (n=20)
"""


TURNED = GUIDANCE.replace("SearchToolA", "X").replace("SearchToolB", "SearchToolA").replace("X", "SearchToolB")
FOR_TASK = "1. `SearchToolA`: expect success 71% (5 of 6)\n2. `SearchToolB`: expect success 20% (1 of 6)"


@pytest.mark.parametrize(
    ("text", "question", "chosen"),
    [
        (GUIDANCE, "What is the capital of Mongolia?", "SearchToolA"),
        (GUIDANCE, "How does a heat pump work?", "SearchToolB"),
        (FORMS, "Who of all people on this earth climbed it first?", "SearchToolA"),
        (FORMS, "Explain how tides come about and why they differ", "SearchToolB"),
        (TURNED, "What is the capital of Mongolia?", "SearchToolB"),
        (FOR_TASK, "What is the capital of Mongolia?", "SearchToolA"),
    ],
)
async def test_the_reader_takes_what_the_text_speaks_best_of_and_not_what_the_table_does(
    text: str, question: str, chosen: str
) -> None:
    assert await GuidanceReader().choose(question, TOOLS[:2], text, "1") == chosen


async def test_the_reader_without_guidance_chooses_at_random_and_can_be_repeated() -> None:
    reader = GuidanceReader()
    sampled = [await reader.choose("What?", TOOLS, "", str(n)) for n in range(600)]
    assert all(170 < count < 230 for count in Counter(sampled).values())
    assert [await reader.choose("What?", TOOLS, "", str(n)) for n in range(600)] == sampled


async def test_the_model_is_shown_the_guidance_as_data_and_must_name_a_tool() -> None:
    script: list[ScriptedAnswer] = [{"tool": "SearchToolC"}, {"tool": "Best"}]
    model = ScriptedChatModel(script)
    chooser = ChatChooser(model, 5)
    assert await chooser.choose("What is a fjord?", TOOLS, GUIDANCE, "1") == "SearchToolC"
    (request,) = model.requests
    assert GUIDANCE.strip().splitlines()[1] in request.user
    assert "score 50%" not in request.system
    with pytest.raises(ModelAnswerInvalid, match="does not exist"):
        await chooser.choose("What is a fjord?", TOOLS, "", "1")


def _values(run: BenchmarkRun) -> dict[tuple[str, str], float]:
    return {(each.subject, each.measure): each.value for each in run.results.figures if not each.part}


async def test_what_was_trained_makes_the_choice_for_a_question_better(toolbox: Toolbox, root: Path) -> None:
    run, _, reports = await benchmarked(toolbox, root, "tool-memory", {"epochs": 2, "per_level": 10})
    values = _values(run)
    better, base = values["test, memory for the question", "right_tool"], values["test, no memory", "right_tool"]
    assert better > base + 0.1
    assert values["test, memory for the question", "score"] > values["test, no memory", "score"]
    assert values["test, memory", "score"] > 0
    assert reports[-1].done == reports[-1].total == 240
    guidance: Any = run.results.details["guidance"]
    assert "## `SearchTool" in guidance[0]["markdown"]
    assert await toolbox.store.tool_memory.memories(toolbox.scope, None) == []


QUERIES = {
    part: {level: [f"{part}, {level}: {word}?" for word in ("who", "what", "how")] for level in LEVELS}
    for part in ("train", "test")
}


async def test_questions_of_a_file_in_remes_form_are_asked_in_place_of_our_own(toolbox: Toolbox, root: Path) -> None:
    (root / "query.json").write_text(json.dumps(QUERIES), encoding="utf-8")
    run, _, reports = await benchmarked(toolbox, root, "tool-memory", {"epochs": 1, "path": "query.json"})
    data = run.results.dataset
    assert data is not None
    assert (data.name, data.items, data.questions) == ("query.json", 9, 9)
    assert reports[-1].total == 36


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "query.json: this is not JSON"),
        ('["who?"]', "query.json: .*dictionary"),
        (json.dumps({"train": QUERIES["train"]}), "train and test must each have texts in the lists simple, mod"),
        (json.dumps(QUERIES | {"test": {"simple": ["who?"], "moderate": "who?"}}), r"query.json.test.moderate"),
    ],
)
async def test_a_file_of_questions_in_another_form_is_refused(
    text: str, complaint: str, toolbox: Toolbox, root: Path
) -> None:
    (root / "query.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=complaint):
        await benchmarked(toolbox, root, "tool-memory", {"path": "query.json"})


async def test_a_run_can_be_repeated(toolbox: Toolbox, root: Path) -> None:
    first, again = [await benchmarked(toolbox, root, "tool-memory", {"epochs": 1, "per_level": 2}) for _ in range(2)]
    assert _values(first[0]) == _values(again[0])


async def test_a_model_that_always_takes_the_first_tool_is_right_for_simple_questions_only(
    toolbox: Toolbox, root: Path
) -> None:
    chooses: ScriptedAnswer = {"tool": "SearchToolA"}
    settings = toolbox.settings.tool_memory.model_copy(update={"evaluator": "evidence"})
    model = ScriptedChatModel([chooses] * 12)
    changed = replace(toolbox, chat=model, settings=toolbox.settings.model_copy(update={"tool_memory": settings}))
    run, *_ = await benchmarked(changed, root, "tool-memory", {"epochs": 1, "per_level": 1})
    right = {
        each.part: each.value
        for each in run.results.figures
        if (each.subject, each.measure) == ("test, memory", "right_tool")
    }
    assert {level: right[level] for level in LEVELS} == {"simple": 1.0, "moderate": 0.0, "complex": 0.0}
    assert best_tool("simple") == "SearchToolA"


async def test_an_interrupted_run_keeps_the_scenarios_that_ended(toolbox: Toolbox, root: Path) -> None:
    kept = await interrupted(toolbox, root, "tool-memory", {"epochs": 1, "per_level": 4}, "test, memory")
    assert {each.subject for each in kept.results.figures} == {"train, no memory", "test, no memory"}


async def test_a_model_is_asked_for_only_where_there_is_one(toolbox: Toolbox, root: Path) -> None:
    with pytest.raises(InputError, match="needs a chat model"):
        await benchmarked(toolbox, root, "tool-memory", {"chooser": "model"})
