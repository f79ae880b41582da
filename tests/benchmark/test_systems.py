"""The systems under test: each finds what it should by what it has, and the bank's are the real bank."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from systems.context import ContextSystem, ContextWeights
from systems.rerank import RerankSystem

from swarm_memory.schema.benchmark import BenchmarkItem, BenchmarkQuestion, Dataset
from swarm_memory.schema.errors import ModelAnswerInvalid
from swarm_memory.server.benchmark.embedding_cache import CachedEmbedder
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.tools.benchmark.datasets import by_group
from swarm_memory.tools.benchmark.systems import Bank, BankSystem, MemorySystem, OkapiSystem
from swarm_memory.tools.ports.models import Ranked, RerankCandidate
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox


async def _filled(system: MemorySystem, dataset: Dataset) -> MemorySystem:
    for group, items in by_group(dataset).items():
        await system.ingest(group, items)
    return system


async def test_the_hybrid_system_answers_exactly_what_the_bank_answers(toolbox: Toolbox, dataset: Dataset) -> None:
    bank = Bank(toolbox)
    system = await _filled(BankSystem("hybrid", bank, toolbox.settings.retrieve), dataset)
    question = dataset.questions[0]
    found = await retrieve(bank.within(question.group), question.query, k=3)
    assert found.memories
    assert await system.retrieve(question, 3) == bank.items_of("a", [each.item.id for each in found.memories])


async def test_no_system_finds_items_of_another_group(toolbox: Toolbox, dataset: Dataset) -> None:
    systems = [
        BankSystem("hybrid", Bank(toolbox), toolbox.settings.retrieve.model_copy(update={"min_cosine": 0.0})),
        OkapiSystem(),
        ContextSystem(toolbox.embedder, ContextWeights()),
    ]
    for system in systems:
        await _filled(system, dataset)
        for question in dataset.questions:
            found = await system.retrieve(question, 10)
            assert all(each.startswith(question.group) for each in found)
            # Okapi's idf is 0 or less for every word of a group of two
            assert found[:1] == [question.gold[0]] or (system.name == "bm25-okapi" and question.group == "b")


async def test_a_leg_alone_gives_only_what_it_found_itself(toolbox: Toolbox, dataset: Dataset) -> None:
    settings = toolbox.settings.retrieve.model_copy(update={"min_cosine": 0.0, "vector_weight": 0.0, "delta": 0.0})
    system = await _filled(BankSystem("keyword", Bank(toolbox), settings, "keyword"), dataset)
    question = BenchmarkQuestion(query="sRGB", gold=("a3",), group="a")
    assert await system.retrieve(question, 10) == ["a3"]


def _talk(*lines: str) -> list[BenchmarkItem]:
    return [BenchmarkItem(id=str(at), content=line, part="one") for at, line in enumerate(lines)]


async def test_context_finds_an_answer_whose_question_stands_beside_it() -> None:
    lines = ["We talked about fishing.", "Boats are calm.", "Trains are late.", "Nice weather today."]
    question = BenchmarkQuestion(query="what city was moved to", gold=("5",))
    ranks: list[int] = []
    for weight in (0.0, 0.4):
        weights = ContextWeights(neighbour_words=weight, vector=0, window_vector=0, part=0)
        system = ContextSystem(StaticEmbedder(), weights)
        await system.ingest("", _talk(*lines, "Which city did you move to?", "Lisbon, in spring."))
        ranks.append(list(await system.retrieve(question, 6)).index("5"))
    assert ranks[1] < ranks[0]


async def test_items_without_a_part_have_no_neighbours() -> None:
    items = [item.model_copy(update={"part": ""}) for item in _talk("alpha", "beta gamma", "delta")]
    system = ContextSystem(StaticEmbedder(), ContextWeights(vector=0, window_vector=0, part=0))
    await system.ingest("", items)
    assert next(iter(await system.retrieve(BenchmarkQuestion(query="gamma"), 1))) == "1"


async def test_recency_prefers_what_was_new_when_the_question_was_asked(toolbox: Toolbox) -> None:
    items = [
        BenchmarkItem(id=day, content="The deploy failed.", time=datetime.fromisoformat(f"{day}T09:00Z"))
        for day in ("2020-01-10", "2020-06-01")
    ]
    settings = toolbox.settings.retrieve.model_copy(update={"beta": 1.0, "delta": 0.0})
    system = BankSystem("hybrid+recency", Bank(toolbox, dated=True), settings)
    await system.ingest("", items)
    asked = BenchmarkQuestion(query="the deploy failed", now=datetime(2020, 6, 2, tzinfo=UTC))
    assert (await system.retrieve(asked, 2))[0] == "2020-06-01"


class Backwards:
    """Puts candidates the other way round, and leaves one out."""

    name = "backwards"

    async def rerank(self, query: str, candidates: Sequence[RerankCandidate]) -> tuple[list[Ranked], list[str]]:
        if query == "broken":
            raise ModelAnswerInvalid("nothing usable")
        assert all(each.text for each in candidates)
        return [Ranked(place, 0.5) for place in range(len(candidates) - 1, 0, -1)], []


class Fixed:
    """Always finds the same."""

    name = "fixed"

    async def ingest(self, group: str, items: Sequence[BenchmarkItem]) -> None: ...

    async def retrieve(self, question: BenchmarkQuestion, k: int) -> Sequence[str]:
        return ["0", "1", "2", "3"][:k]

    async def size_bytes(self) -> int | None:
        return None


async def test_a_reranker_orders_the_pool_and_what_it_did_not_judge_follows() -> None:
    system = RerankSystem(Fixed(), Backwards(), pool=3)
    await system.ingest("", _talk("a", "b", "c", "d"))
    assert list(await system.retrieve(BenchmarkQuestion(query="q"), 4)) == ["2", "1", "0", "3"]
    assert list(await system.retrieve(BenchmarkQuestion(query="broken"), 2)) == ["0", "1"]
    assert system.unjudged == 1


class Counting(StaticEmbedder):
    """Counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = 0

    def embed_many(self, texts: Sequence[str]) -> list[object]:  # type: ignore[override]
        self.texts += len(texts)
        return list(super().embed_many(texts))


def _only_file(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


async def test_a_text_is_embedded_once_whoever_asks_again(tmp_path: Path) -> None:
    inner = Counting()
    first = CachedEmbedder(inner, tmp_path)
    vectors = await first.embed_documents(["one", "two", "one"])
    again = CachedEmbedder(inner, tmp_path)
    assert await again.embed_documents(["two", "one"]) == [vectors[1], vectors[0]]
    assert inner.texts == 2
    query = await first.embed_query("one")
    assert await CachedEmbedder(inner, tmp_path).embed_query("one") == query


async def test_a_cache_that_was_cut_off_in_the_middle_is_used_up_to_there(tmp_path: Path) -> None:
    whole = await CachedEmbedder(StaticEmbedder(), tmp_path).embed_documents(["one", "two"])
    file = _only_file(tmp_path)
    file.write_bytes(file.read_bytes()[:-7])
    inner = Counting()
    assert await CachedEmbedder(inner, tmp_path).embed_documents(["one", "two"]) == whole
    assert inner.texts == 1
    assert await CachedEmbedder(Counting(), tmp_path).embed_documents(["two"]) == whole[1:]


async def test_the_cache_holds_no_text(tmp_path: Path) -> None:
    await CachedEmbedder(StaticEmbedder(), tmp_path).embed_documents(["a password stands here"])
    file = _only_file(tmp_path)
    assert b"password" not in file.read_bytes()
