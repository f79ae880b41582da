"""Sources in a real bank: indexed by hash, changed, removed, separate from memories; their order, and who reranks."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from scripted_chat import ScriptedChatModel
from scripted_server import HANG, ScriptedServer, Turn, error, in_json, page

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import InputError, ModelAnswerInvalid, ModelError, ModelUnavailable, NotFoundError
from swarm_memory.schema.source import Passage, SourceKind
from swarm_memory.server.jobs.handlers import reembed_bank
from swarm_memory.server.jobs.worker import ProgressReporter
from swarm_memory.server.rerank.endpoint import EndpointReranker
from swarm_memory.tools.ports.models import RerankCandidate
from swarm_memory.tools.ports.sources import PassageCandidate, ReadGroup, SourceKey, SourceResult
from swarm_memory.tools.retrieve.embed import BACKLOG, REEMBED
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.sources import sources
from swarm_memory.tools.sources.sources import (
    PreparationBatch,
    Prepared,
    ScoredPassage,
    SourceSearch,
    index_source,
    score_passages,
    search_sources,
)
from swarm_memory.tools.toolbox import Toolbox
from tests.sources.made_source import MadeSource

WEATHER = ("get_weather", "Tells the weather forecast of a city.", "city: name of the city")
MAIL = ("send_mail", "Sends an e-mail message to a recipient.", "to, subject, body")
FLAKY = {"a.md": [("Flaky tests", "", "Freeze the clock when a date test is flaky.")]}


async def titles(toolbox: Toolbox, query: str, **asked: Any) -> list[str]:
    found = await search_sources(toolbox, query, **asked)
    return [hit.passage.title for hit in found.hits]


async def test_changing_one_group_rewrites_only_that_one(toolbox: Toolbox) -> None:
    source = MadeSource("tool", {"first": [WEATHER], "second": [MAIL]})
    await source.index(toolbox, "list.json")
    kept = (await search_sources(toolbox, "weather of a city")).hits
    source.groups["second"] = [("post_letter", "Posts a letter by ship.", "address")]
    done = await source.index(toolbox, "list.json")
    assert (done.added, done.changed, done.unchanged) == (0, 1, 1)
    assert source.parsed == ["first", "second", "second"]
    assert (await titles(toolbox, "letter"))[0] == "post_letter"
    assert "send_mail" not in await titles(toolbox, "send an e-mail message")
    assert kept[0].passage == (await search_sources(toolbox, "weather of a city")).hits[0].passage


async def test_what_is_gone_is_removed_with_every_trace(toolbox: Toolbox, tmp_path: Path) -> None:
    source = MadeSource("tool", {"first": [WEATHER], "second": [("zebrafish", "Counts zebrafish.", "aquarium")]})
    await source.index(toolbox, "list.json")
    del source.groups["second"]
    done = await source.index(toolbox, "list.json")
    assert done.removed == 1
    assert await titles(toolbox, "zebrafish") == ["get_weather"]
    removed = await toolbox.store.sources.remove(SourceKey(toolbox.scope, "tool", "list.json"))
    assert removed == 1
    assert await toolbox.store.sources.list_sources(toolbox.scope) == []
    with pytest.raises(NotFoundError, match=r"list\.json"):
        await toolbox.store.sources.remove(SourceKey(toolbox.scope, "tool", "list.json"))
    await toolbox.store.close()
    folder = tmp_path / ".swarm"
    left = b"".join(file.read_bytes() for file in folder.iterdir() if file.is_file())
    assert b"zebrafish" not in left.lower()
    assert b"forecast" not in left.lower()


async def test_a_group_that_cannot_be_read_keeps_what_was_indexed_before(toolbox: Toolbox) -> None:
    await MadeSource("document", {"a.md": [("Guide", "", "How to brew coffee.")]}).index(toolbox, ".")

    async def broken() -> AsyncIterator[ReadGroup]:
        def parse() -> list[Passage]:
            raise InputError("a.md is cut off")

        yield "a.md", "other", parse

    done = await index_source(toolbox, "document", ".", broken())
    assert [(fault.group, fault.reason) for fault in done.faults] == [("a.md", "is cut off")]
    assert await titles(toolbox, "brew coffee") == ["Guide"]


async def test_scopes_and_kinds_never_see_each_other(toolbox: Toolbox) -> None:
    await MadeSource("tool", {"first": [WEATHER]}).index(toolbox)
    for scope in (Scope(project="other"), Scope(tenant_id="another", project="shop")):
        elsewhere = dataclasses.replace(toolbox, scope=scope)
        found = await search_sources(elsewhere, "weather")
        assert found.hits == ()
        assert "no source is indexed" in (found.reason or "")
    shared = dataclasses.replace(toolbox, scope=Scope(project="*"))
    await MadeSource("tool", {"global": [MAIL]}).index(shared)
    assert set(await titles(toolbox, "mail weather")) == {"send_mail", "get_weather"}
    assert await titles(toolbox, "weather", kind="document") == []


async def test_a_hit_that_shares_no_word_with_the_query_and_is_not_near_is_marked(toolbox: Toolbox) -> None:
    await MadeSource("document", FLAKY).index(toolbox)
    far = await search_sources(toolbox, "whales of the Pacific")
    assert [hit.is_unlikely for hit in far.hits] == [True]
    assert "these are guesses" in (far.reason or "")
    near = await search_sources(toolbox, "a flaky test of dates")
    assert ([hit.is_unlikely for hit in near.hits], near.reason) == ([False], None)


async def test_memories_and_sources_are_apart(toolbox: Toolbox) -> None:
    await MadeSource("document", FLAKY).index(toolbox)
    found = await retrieve(toolbox, "the date test is flaky")
    assert found.memories == ()
    assert "no memories yet" in (found.reason or "")


async def test_an_index_without_vectors_is_searched_by_keywords_and_says_so(toolbox: Toolbox) -> None:
    class Down:
        name, dimensions, quantization, fusion_weight, min_cosine, light = "down", 8, "float32", 0.5, 0.2, None

        async def embed_documents(self, texts: Any) -> Any:
            raise ModelUnavailable("it is down")

        embed_queries = embed_documents

    without = dataclasses.replace(toolbox, embedder=Down())  # type: ignore[arg-type]
    done = await MadeSource("tool", {"first": [WEATHER]}).index(without)
    assert "run `swarm-memory bank reembed`" in done.notices[0]
    found = await search_sources(without, "weather")
    assert found.legs == ("keyword",)
    assert [hit.passage.title for hit in found.hits] == ["get_weather"]
    again = await search_sources(toolbox, "weather")
    assert any("1 passages have no vector" in notice for notice in again.notices)


async def test_a_source_from_which_everything_is_gone_is_not_kept(toolbox: Toolbox) -> None:
    source = MadeSource("tool", {"first": [WEATHER]})
    await source.index(toolbox, "list.json")
    source.groups.clear()
    emptied = await source.index(toolbox, "list.json")
    assert emptied.removed == 1
    assert emptied.reason == "nothing from list.json is indexed: no tool was found there"
    assert await toolbox.store.sources.list_sources(toolbox.scope) == []


async def test_secrets_and_invisible_characters_are_not_stored_and_change_no_other_passage(toolbox: Toolbox) -> None:
    head, body = "-----BEGIN RSA PRIVATE KEY-----", "MIIEpAIBAAKCAQEA7bq1QYw3Zc9f\n" * 3
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    texts = {
        "Deploy": f"The key:\n{head}\n{body}",
        "Restart": f"{body}-----END RSA PRIVATE KEY-----\nThen restart the zeppelin.",
        "Contact": "Write to anna.berg@firm.example.org.",
        "Log in": f"Use {key} to deploy.\u202e",
    }
    await MadeSource("document", {"a.md": [(title, "", text) for title, text in texts.items()]}).index(toolbox)
    found = await search_sources(toolbox, "deploy restart contact log in")
    hits = {hit.passage.title: hit.passage.content for hit in found.hits}
    assert hits["Deploy"] == "The key:\n[secret:private-key]"
    assert hits["Restart"].endswith("Then restart the zeppelin.")
    assert hits["Contact"] == "Write to [email]."
    assert (key in hits["Log in"], "\u202e" in hits["Log in"]) == (False, False)


async def test_groups_are_prepared_at_once_and_never_without_bound(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "GROUPS_TOGETHER", 2)
    monkeypatch.setattr(sources, "BATCH_PASSAGES", 3)
    source = MadeSource(
        "tool", {f"server{number}": [(f"tool_{number}", "Does something.", "")] for number in range(41)}
    )
    under_way: list[int] = []
    now = 0

    async def prepare(preparation: PreparationBatch) -> list[Prepared]:
        nonlocal now
        now += 1
        under_way.append(now)
        prepared = await asyncio.to_thread(preparation)
        now -= 1
        return prepared

    done = await index_source(toolbox, "tool", "list.json", source.read(), prepare=prepare)
    assert (done.added, done.passages, len(under_way)) == (41, 41, 21)
    assert max(under_way) == sources.PREPARED_AT_ONCE
    assert (await toolbox.store.sources.list_sources(toolbox.scope))[0].passages == 41


async def test_a_run_that_breaks_off_keeps_what_was_written_and_leaves_nothing_running(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "GROUPS_TOGETHER", 1)
    monkeypatch.setattr(sources, "BATCH_PASSAGES", 1)
    source = MadeSource(
        "tool", {f"server{number}": [(f"tool_{number}", "Does something.", "")] for number in range(22)}
    )

    async def broken() -> AsyncIterator[ReadGroup]:
        async for group in source.read():
            yield group
        raise OSError("the disk is gone")

    before = asyncio.all_tasks()
    with pytest.raises(OSError, match="the disk is gone"):
        await index_source(toolbox, "tool", "list.json", broken())
    assert asyncio.all_tasks() == before
    kept = (await toolbox.store.sources.list_sources(toolbox.scope))[0].groups
    assert 0 < kept < 22
    done = await source.index(toolbox, "list.json")
    assert (done.added, done.unchanged) == (22 - kept, kept)


async def test_vectors_that_take_too_long_are_left_to_a_job_and_reported(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "BATCH_PASSAGES", 2)
    monkeypatch.setattr(sources, "EMBEDDING_S", 1e-9)
    tools = {f"server{number}": [(f"zeppelin_{number}", "Flies somewhere.", "")] for number in range(5)}
    done = await MadeSource("tool", tools).index(toolbox)
    (notice,) = done.notices
    assert notice.startswith("3 passages can be found only by keywords until a job")
    assert "zeppelin_4" in await titles(toolbox, "zeppelin 4")
    vectors, embedder = toolbox.store.sources.vectors, toolbox.embedder
    assert len(await vectors.without_vector(embedder.name, embedder.dimensions, 9, 0)) == 3
    job = await toolbox.store.find_job(toolbox.scope, REEMBED, BACKLOG)
    assert job is not None
    await reembed_bank(toolbox, job, ProgressReporter(), embedding=anyio.Lock())
    assert await vectors.without_vector(embedder.name, embedder.dimensions, 9, 0) == []


TOOLS = [
    ("read_file", "Reads a text file from the disk.", "path"),
    ("write_file", "Writes a text file to the disk.", "path, text"),
    ("list_files", "Lists the files of a folder on the disk.", "folder"),
]
CANDIDATES = [RerankCandidate(name, about) for name, about, _ in TOOLS]


@pytest.fixture
async def tools(toolbox: Toolbox) -> Toolbox:
    """A bank with three tools of one server."""
    await MadeSource("tool", {"disk": TOOLS}).index(toolbox)
    return toolbox


def titles_of(found: SourceSearch) -> list[str]:
    return [hit.passage.title for hit in found.hits]


def answer(*scores: tuple[str, float], selected: Sequence[str] = ()) -> dict[str, Any]:
    """Return a model's answer with scores of tools."""
    rows = [{"tool_name": name, "relevance_score": score, "justification": f"why {name}"} for name, score in scores]
    return {"scores": rows, "selected_tools": list(selected)}


async def test_a_chat_model_puts_tools_in_order_and_says_why(tools: Toolbox) -> None:
    chat = ScriptedChatModel([answer(("read_file", 0.2), ("list_files", 0.9), ("write_file", 0.4))])
    found = await search_sources(dataclasses.replace(tools, chat=chat), "what lies in this folder?", kind="tool")
    assert titles_of(found) == ["list_files", "write_file", "read_file"]
    assert found.reranker == "scripted:test"
    assert (found.hits[0].rerank_score, found.hits[0].justification) == (0.9, "why list_files")
    (request,) = chat.requests
    assert "what lies in this folder?" in request.user
    assert "what lies in this folder?" not in request.system


async def test_selected_tools_come_first_and_those_that_a_model_makes_up_are_left_out_and_reported(
    tools: Toolbox,
) -> None:
    scores = (("delete_all", 1.0), ("read_file", 0.9), ("list_files", 0.8))
    chat = ScriptedChatModel([answer(*scores, selected=["delete_all", "list_files"])])
    found = await search_sources(dataclasses.replace(tools, chat=chat), "text file", kind="tool")
    assert titles_of(found) == ["list_files", "read_file", "write_file"]
    assert any("named tools that it was not shown: 1 left out" in notice for notice in found.notices)


async def test_only_tools_and_operations_are_shown_to_a_chat_model(tools: Toolbox) -> None:
    chat = ScriptedChatModel([])
    alone = await search_sources(tools, "read a text file")
    found = await search_sources(dataclasses.replace(tools, chat=chat), "read a text file")
    assert chat.requests == []
    assert found.notices == alone.notices


async def test_tools_of_one_name_are_kept_apart_by_their_servers(toolbox: Toolbox) -> None:
    searches = {"github": [("search", "Searches issues.", "")], "disk": [("search", "Searches files.", "")]}
    await MadeSource("tool", searches).index(toolbox)
    chat = ScriptedChatModel([answer(("github/search", 0.9), ("disk/search", 0.1))])
    found = await search_sources(dataclasses.replace(toolbox, chat=chat), "search", kind="tool")
    assert [hit.passage.group for hit in found.hits] == ["github", "disk"]


@pytest.mark.allow_hosts(["127.0.0.1"])
class TestEndpoint:
    """The cross-encoder, over real sockets."""

    async def ask(self, *turns: Turn, timeout_s: float = 3.0) -> tuple[list[str], list[Any]]:
        async with ScriptedServer(turns) as server:
            reranker = EndpointReranker(server.url, "m-1", "sk-proj-Zx81kfQ0aLw2mNbV7cXy", timeout_s)
            ranked, _ = await reranker.rerank("read it", CANDIDATES)
            return [CANDIDATES[each.place].name for each in ranked], server.requests

    async def test_it_speaks_the_form_of_most_endpoints(self) -> None:
        rows = [{"index": 2, "relevance_score": -3.1}, {"index": 0, "relevance_score": 8.6}]
        names, (request,) = await self.ask(in_json({"results": rows}))
        assert names == ["read_file", "list_files"]
        assert (request.path, request.headers["authorization"]) == ("/rerank", "Bearer sk-proj-Zx81kfQ0aLw2mNbV7cXy")
        assert request.body["documents"][0] == "read_file\nReads a text file from the disk."

    async def test_it_speaks_the_other_form_where_the_first_is_refused(self) -> None:
        refused, given = in_json({}, status=422), in_json([{"index": 1, "score": 0.9}, {"index": 0, "score": 0.1}])
        names, requests = await self.ask(refused, given)
        assert names == ["write_file", "read_file"]
        assert set(requests[1].body) == {"query", "texts"}

    async def test_it_tries_again_when_the_endpoint_is_busy(self) -> None:
        names, requests = await self.ask(error(503), in_json({"results": [{"index": 0, "relevance_score": 1}]}))
        assert (names, len(requests)) == (["read_file"], 2)

    @pytest.mark.parametrize(
        ("turn", "kind"),
        [
            (page(), ModelAnswerInvalid),
            (in_json({"results": []}), ModelAnswerInvalid),
            (in_json({"results": [{"index": 9, "relevance_score": 1.0}]}), ModelAnswerInvalid),
            (in_json({"results": [{"index": 0, "relevance_score": "high"}]}), ModelAnswerInvalid),
            (Turn(b'{"results": [{"index": 0, "relevance_score": NaN}]}'), ModelAnswerInvalid),
            (Turn(b"[" * 100_000), ModelAnswerInvalid),
            (Turn(b" " * 1_000_000, repeats=5), ModelAnswerInvalid),
            (error(401, "bad key sk-proj-Zx81kfQ0aLw2mNbV7cXy"), ModelError),
        ],
    )
    async def test_what_is_no_order_is_an_error_that_repeats_nothing(self, turn: Turn, kind: type[ModelError]) -> None:
        with pytest.raises(kind) as raised:
            await self.ask(turn)
        assert "sk-proj" not in str(raised.value)

    async def test_a_silent_endpoint_ends_in_time(self) -> None:
        with pytest.raises(ModelUnavailable, match=r"within 0\.2 s"):
            await self.ask(HANG, timeout_s=0.2)

    async def test_a_search_is_reranked_by_it_and_survives_its_failure(self, tools: Toolbox) -> None:
        rows = [{"index": 2, "relevance_score": 3.0}, {"index": 1, "relevance_score": 2.0}]
        alone = await search_sources(tools, "text file")
        async with ScriptedServer([in_json({"results": rows}), error(400), error(400)]) as server:
            reranker = EndpointReranker(server.url, None, None, 3.0)
            asked = dataclasses.replace(tools, reranker=reranker)
            found = await search_sources(asked, "text file")
            failed = await search_sources(asked, "text file")
        assert titles_of(found) == [titles_of(alone)[2], titles_of(alone)[1], titles_of(alone)[0]]
        assert titles_of(failed) == titles_of(alone)
        assert any("rerank:127.0.0.1 failed" in notice for notice in failed.notices)


def scored(kind: SourceKind, contents: Sequence[str], **frequency: int) -> dict[int, ScoredPassage]:
    """Score passages of one group by their words only."""
    candidates = tuple(
        PassageCandidate(seq, kind, 1, seq, f"part{seq}", "", content, "", None) for seq, content in enumerate(contents)
    )
    result = SourceResult(candidates, ("keyword",), len(contents), frequency)
    return {each.candidate.seq: each for each in score_passages(result, 0.0)}


@pytest.mark.parametrize(("kind", "reach"), [("document", 2), ("code", 1), ("tool", 0), ("api", 0)])
def test_a_passage_is_found_by_its_neighbours_as_far_as_their_order_means_something(
    kind: SourceKind, reach: int
) -> None:
    found = scored(kind, ["", "", "", "zeppelin", "", "", ""], zeppelin=1)
    assert [seq for seq in range(7) if found[seq].keyword is not None] == list(range(3 - reach, 4 + reach))
    assert max(found.values(), key=lambda each: each.score).candidate.seq == 3
