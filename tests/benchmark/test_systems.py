"""The systems under test: each finds what it should by its own means; our server really runs next to another one."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from swarm_memory.schema.benchmark import BenchmarkDocument, BenchmarkQuestion, Dataset
from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.benchmark.running import SUITES
from swarm_memory.tools.benchmark.retrieval.datasets import by_group
from swarm_memory.tools.benchmark.retrieval.systems import (
    Answer,
    BankSystem,
    MemorySystem,
    OkapiSystem,
    SharedBank,
    SourceSearchSystem,
)
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox
from tests.benchmark.conftest import benchmarked


async def _filled(system: MemorySystem, dataset: Dataset) -> MemorySystem:
    await system.fill(by_group(dataset))
    return system


async def test_the_hybrid_system_answers_exactly_what_the_bank_answers(toolbox: Toolbox, dataset: Dataset) -> None:
    bank = SharedBank(toolbox)
    system = await _filled(BankSystem("hybrid", bank, toolbox.settings.retrieve), dataset)
    question = dataset.questions[0]
    found = await retrieve(bank.within(question.group), question.query, k=3)
    assert found.memories
    answer = await system.retrieve(question, 3)
    assert answer == Answer(bank.items_of("a", [each.item.id for each in found.memories]), fits=True)


async def test_no_system_finds_items_of_another_group(toolbox: Toolbox, dataset: Dataset) -> None:
    systems = [
        BankSystem("hybrid", SharedBank(toolbox), toolbox.settings.retrieve.model_copy(update={"min_cosine": 0.0})),
        SourceSearchSystem("hybrid+context", toolbox),
        OkapiSystem(),
    ]
    for system in systems:
        await _filled(system, dataset)
        for question in dataset.questions:
            found = (await system.retrieve(question, 10)).items
            assert all(each.startswith(question.group) for each in found)
            # Okapi's idf is 0 or less for every word of a group of two
            assert found[:1] == [question.gold[0]] or (system.name == "bm25-okapi" and question.group == "b")


async def test_a_leg_alone_gives_only_what_it_found_itself(toolbox: Toolbox, dataset: Dataset) -> None:
    settings = toolbox.settings.retrieve.model_copy(update={"min_cosine": 0.0, "vector_weight": 0.0, "delta": 0.0})
    system = await _filled(BankSystem("keyword", SharedBank(toolbox), settings, "keyword"), dataset)
    question = BenchmarkQuestion(query="sRGB", gold=("a3",), group="a")
    assert await system.retrieve(question, 10) == Answer(["a3"], fits=True)


async def test_what_the_gate_lets_pass_is_all_that_a_prompt_gets(toolbox: Toolbox, dataset: Dataset) -> None:
    bank = SharedBank(toolbox)
    system = await _filled(BankSystem("hybrid-gated", bank, toolbox.settings.retrieve, gated=True), dataset)
    assert (await system.retrieve(dataset.questions[0], 10)).items[0] == "a2"
    foreign = BenchmarkQuestion(query="ripe bananas for a cake on Sunday", group="a")
    assert await system.retrieve(foreign, 10) == Answer([], fits=False)


async def test_items_with_their_own_times_are_found_by_a_time_that_the_question_names(toolbox: Toolbox) -> None:
    day = datetime(2024, 5, 20, tzinfo=UTC)
    items = [
        BenchmarkDocument(
            id=str(weeks), content=f"The release train left platform {weeks}", time=day - timedelta(7 * weeks)
        )
        for weeks in range(6)
    ]
    system = BankSystem("hybrid+temporal", SharedBank(toolbox, dated=True), toolbox.settings.retrieve)
    await system.fill({"": items})
    for weeks in ("three", "two"):
        question = BenchmarkQuestion(query=f"which platform did the release train leave {weeks} weeks ago", now=day)
        assert (await system.retrieve(question, 3)).items[0] == {"two": "2", "three": "3"}[weeks]
        asked_last = question.model_copy(update={"now": None})
        assert (await system.retrieve(asked_last, 3)).items[0] == {"two": "2", "three": "3"}[weeks]


async def test_an_item_is_found_by_what_stands_beside_it_in_its_part(toolbox: Toolbox) -> None:
    said = ["Ann: Did you ever see the northern lights?", "Bob: Once, from a boat.", "Ann: I buy bread on Mondays."]
    items = [BenchmarkDocument(id=str(at), content=each, part="one") for at, each in enumerate(said)]
    apart = [item.model_copy(update={"group": "apart", "part": ""}) for item in items]
    system = SourceSearchSystem("hybrid+context", toolbox)
    await system.fill({"": items, "apart": apart})
    question = BenchmarkQuestion(query="where were the northern lights seen")
    assert list((await system.retrieve(question, 3)).items)[:2] == ["0", "1"]


ECHO = Path(__file__).with_name("echo_memory.py")
OTHER: dict[str, Any] = {
    "name": "echo",
    "command": [sys.executable, str(ECHO)],
    "store": {"tool": "remember", "arguments": {"text": "{content}"}, "results": "stored.id"},
    "search": {"tool": "recall", "arguments": {"question": "{query}", "limit": "{k}"}, "results": "hits", "id": "id"},
}


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the repository's suite in place of the product's, as `benchmarks/retrieval/run.py` does."""
    monkeypatch.setitem(SUITES, "retrieval", "systems.suite")


COMPARED: dict[str, Any] = {"dataset": "file", "path": "tiny.json", "systems": "bm25-okapi"}


@pytest.mark.usefixtures("compared")
@pytest.mark.parametrize("search", [{}, {"id": "", "text": "text"}])
async def test_an_outside_system_is_measured_by_its_own_ids_or_by_its_texts(
    toolbox: Toolbox, root: Path, search: dict[str, Any]
) -> None:
    options: dict[str, Any] = COMPARED | {"outside": [OTHER | {"search": OTHER["search"] | search}]}
    run, *_ = await benchmarked(toolbox, root, "retrieval", options)
    values = {(each.subject, each.measure, each.part): each.value for each in run.results.figures}
    assert values["echo", "recall_any@1", ""] == 1.0


@pytest.mark.usefixtures("compared")
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"command": ["no-such-program-anywhere"]}, "cannot be started"),
        ({"store": {"tool": "forgets", "arguments": {}}}, "forgets"),
    ],
)
async def test_an_outside_system_that_does_not_work_is_named(
    toolbox: Toolbox, root: Path, changes: dict[str, Any], said: str
) -> None:
    options: dict[str, Any] = COMPARED | {"outside": [OTHER | changes]}
    with pytest.raises(ConfigError) as refused:
        await benchmarked(toolbox, root, "retrieval", options)
    assert said in str(refused.value)
    assert str(refused.value).startswith("echo:")
