"""The source store on every SQLite driver: the same answers, indexes in step with the rows, nothing foreign."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from driver_names import AVAILABLE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laid_bank import DRIVER, EMBEDDER, opened_bank

from swarm_memory.schema.errors import StoreUntrusted
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.jobs.reembed import reembed
from swarm_memory.server.storage.care.repair import repair
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.sqlite import SqliteStore, open_store
from swarm_memory.tools.ports.sources import SourceKey
from swarm_memory.tools.sources.sources import search_sources
from swarm_memory.tools.toolbox import Toolbox
from tests.sources.made_source import MadeSource

TEXTS = [
    ("Install", "", "Run the installer and choose a folder for the program."),
    ("Configure", "", "The retry limit stands in the file settings.toml under network."),
    ("Upgrade", "", "Stop the service, unpack the archive, start the service."),
]


def raw(toolbox: Toolbox) -> SqliteStore:
    assert isinstance(toolbox.store, SqliteStore)
    return toolbox.store


async def count(toolbox: Toolbox, sql: str) -> int:
    (row,) = await raw(toolbox).read(lambda connection: connection.execute(sql).fetchall())
    return int(row[0])


async def test_every_driver_name_finds_the_same_with_the_same_scores(tmp_path: Path) -> None:
    source = MadeSource("document", {"guide.md": TEXTS, "other.md": [("Zoo", "", "Feed the lions at noon.")]})
    answers: list[list[tuple[str, float]]] = []
    for driver_name in AVAILABLE:
        async with opened_bank(tmp_path / f"{driver_name}.db", sqlite=driver_name) as toolbox:
            await source.index(toolbox)
            found = await search_sources(toolbox, "where is the retry limit of the network", kind="document")
        best = found.hits[0]
        assert best.passage.title == "Configure"
        assert (best.before_title, best.before) == (TEXTS[0][0], TEXTS[0][2])
        assert (best.after_title, best.after) == (TEXTS[2][0], TEXTS[2][2])
        assert found.legs[0] == ("exact_scan" if driver_name == "scan" else "vector")
        answers.append([(hit.passage.title, round(hit.score, 3)) for hit in found.hits])
    assert all(answer == answers[0] for answer in answers)


async def test_what_was_written_without_sqlite_vec_is_found_by_the_index_later(tmp_path: Path) -> None:
    if AVAILABLE == ["scan"]:
        pytest.skip("needs a driver with sqlite-vec")
    tools = {"a": [("add", "Adds two numbers.", "")], "b": [("mail", "Sends a letter.", "")]}
    async with opened_bank(tmp_path / "bank.db", sqlite="scan") as without:
        await MadeSource("tool", tools).index(without)
    later = next(each for each in AVAILABLE if each != "scan")
    async with opened_bank(tmp_path / "bank.db", sqlite=later) as toolbox:
        found = await search_sources(toolbox, "sum of numbers")
    assert found.legs[0] == "vector"
    assert [hit.passage.title for hit in found.hits] == ["add", "mail"]


async def test_neighbours_raise_a_passage_and_are_found_with_it(toolbox: Toolbox) -> None:
    around = ("Harbour", "", "Ships of the northern fleet lie in the harbour.")
    alone, beside = ("Note", "", "It was painted red in spring."), ("Note", "", "It was painted red in spring.")
    await MadeSource("document", {"alone.md": [alone], "fleet.md": [around, beside]}).index(toolbox)
    found = await search_sources(toolbox, "which ships of the fleet were painted red")
    groups = [(hit.passage.group, hit.passage.position) for hit in found.hits]
    assert groups.index(("fleet.md", 1)) < groups.index(("alone.md", 0))


class Other(StaticEmbedder):
    """The same vectors under another name."""

    def __init__(self) -> None:
        super().__init__()
        self.name = "other-256"


async def test_indexes_are_rebuilt_and_given_to_another_embedder(toolbox: Toolbox) -> None:
    await MadeSource("document", {"a.md": TEXTS}).index(toolbox)
    once = await search_sources(toolbox, "retry limit")
    await raw(toolbox).reindex()
    again = await search_sources(toolbox, "retry limit")
    assert [hit.score for hit in again.hits] == [hit.score for hit in once.hits]
    assert (await reembed(replace(toolbox, embedder=Other()))).passages == 3
    assert await raw(toolbox).drop_other_spaces(Other().name, Other().dimensions) == [toolbox.embedder.name]
    spaces = await count(toolbox, "SELECT count(*) FROM source_spaces")
    assert spaces == 1 + (AVAILABLE[0] == "scan"), "without sqlite-vec an empty one stays behind, marked"
    assert await count(toolbox, "SELECT count(*) FROM passage_embeddings WHERE model = 'other-256'") == 3


async def test_a_bank_with_a_foreign_table_of_vectors_is_refused(tmp_path: Path) -> None:
    database = tmp_path / "bank.db"
    hostile = "CREATE TABLE source_vec_9_info (key TEXT DEFAULT (randomblob(1)))"
    async with opened_bank(database) as toolbox:
        await MadeSource("tool", {"a": [("add", "Adds two numbers.", "")]}).index(toolbox)
        await raw(toolbox).write(lambda connection: connection.execute(hostile).rowcount)
    with pytest.raises(StoreUntrusted, match="source_vec_9_info"):
        await open_store(database, sqlite=DRIVER, embedder=EMBEDDER)


STATES = st.lists(
    st.dictionaries(
        st.sampled_from(["a", "b", "c"]),
        st.lists(st.sampled_from(["red ships", "blue birds", "retry limit"]), max_size=3),
        max_size=3,
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(states=STATES)
async def test_after_any_changes_indexes_and_counts_are_those_of_the_last_state(
    toolbox: Toolbox, states: list[dict[str, list[str]]]
) -> None:
    key = SourceKey(toolbox.scope, "document", "docs")
    for state in states:
        groups = {name: [(f"Part {at}", "", text) for at, text in enumerate(texts)] for name, texts in state.items()}
        source = MadeSource("document", groups)
        await source.index(toolbox, "docs")
        again = await source.index(toolbox, "docs")
        assert (again.added, again.changed, again.removed) == (0, 0, 0)
    passages = sum(map(len, states[-1].values()))
    assert set(await toolbox.store.sources.groups(key)) == set(states[-1])
    for table in ("passages", "passage_tokens", "passage_embeddings"):
        assert await count(toolbox, f"SELECT count(*) FROM {table}") == passages
    assert await count(toolbox, "SELECT coalesce(sum(passages), 0) FROM source_partitions") == passages
    assert await count(toolbox, "SELECT coalesce(sum(passages), 0) FROM source_space_members") == passages
    wanted = sum("red ships" in texts for texts in states[-1].values() for texts in texts)
    assert await count(toolbox, "SELECT coalesce(sum(doc), 0) FROM passage_terms WHERE term LIKE '%xred'") == wanted


HARMS = {
    "rows of the keyword index lost": "DELETE FROM passage_fts_docsize WHERE id = 2",
    "the keyword index emptied": "INSERT INTO passage_fts (passage_fts) VALUES ('delete-all')",
    "words changed": "UPDATE passage_tokens SET content = content || ' zebra' WHERE seq = 1",
    "vectors lost": "DELETE FROM source_vec_1 WHERE rowid = 1",
    "a count wrong": "UPDATE source_partitions SET passages = passages + 1",
    "a count of vectors wrong": "UPDATE source_space_members SET passages = 0",
}


@pytest.mark.skipif("scan" in AVAILABLE[:1], reason="without sqlite-vec there is no vector index to harm")
@pytest.mark.parametrize("harm", HARMS)
async def test_an_index_of_sources_out_of_step_is_seen_and_rebuilt(tmp_path: Path, harm: str) -> None:
    database = tmp_path / "memory.db"
    async with opened_bank(database) as toolbox:
        await MadeSource("document", {"guide.md": TEXTS}).index(toolbox)
        assert (await raw(toolbox).inspect()).sound
        await raw(toolbox).write(lambda connection: connection.execute(HARMS[harm]).rowcount)
        assert (await raw(toolbox).inspect()).indexes
    await asyncio.to_thread(repair, database, choose(DRIVER), 5.0)
    async with opened_bank(database) as toolbox:
        assert (await raw(toolbox).inspect()).sound
        found = await search_sources(toolbox, "where is the retry limit of the network", kind="document")
    assert found.hits[0].passage.title == "Configure"
