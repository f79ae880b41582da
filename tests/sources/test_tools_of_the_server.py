"""`index_sources` and `search_sources` as an agent calls them: what may be read or started, how answers are cut."""

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laid_bank import BY_TABLE
from made_files import written
from mcp.client import Client
from mcp.types import CallToolResult, TextContent

from swarm_memory.schema.settings import Settings
from swarm_memory.server.location import Location
from swarm_memory.server.mcp.app import build_server
from swarm_memory.server.mcp.tool import capped, is_within
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.server.wiring import make_worker, open_toolbox
from swarm_memory.tools.text.tokens import count_tokens
from tests.sources.tiny_server import tiny_server

Call = Callable[..., Any]


@asynccontextmanager
async def connected(place: Location, **sections: dict[str, Any]) -> AsyncGenerator[Call]:
    """Connect to a server with a real bank and worker; the returned function calls a tool."""
    settings = Settings.model_validate({"embedding": BY_TABLE, **sections})
    bank = ServedBank(lambda: open_toolbox(place, settings), lambda toolbox: make_worker(toolbox, place), place.root)
    server = build_server(bank)
    async with Client(server) as client:

        async def call(tool: str, **arguments: Any) -> CallToolResult:
            result = await client.call_tool(tool, arguments)
            assert isinstance(result, CallToolResult)
            return result

        yield call


def structure(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result.content
    return result.structured_content or {}


def said(result: CallToolResult) -> str:
    (part,) = result.content
    assert isinstance(part, TextContent)
    return part.text


async def test_documents_are_indexed_as_a_job_and_found(place: Location) -> None:
    async with connected(place) as call:
        done = structure(await call("index_sources", kind="document", path="docs"))
        found = structure(await call("search_sources", query="where is the retry limit", kind="document"))
    assert (done["status"], done["result"]["added"], done["result"]["location"]) == ("completed", 1, "docs")
    (hit,) = found["hits"]
    assert hit["where"].startswith("guide.md:")
    assert "settings.toml" in hit["text"]
    assert found["legs"] == ["vector", "keyword"]


async def test_a_path_that_leads_out_is_refused_also_through_a_link(place: Location, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    written(outside / "secret.md", "# Secret\n\nThe password of the vault.\n")
    (place.root / "link").symlink_to(outside)
    (place.root / "docs" / "link.md").symlink_to(outside / "secret.md")
    async with connected(place) as call:
        for path in ("..", str(outside), "link", "docs/link.md", "docs/../../outside"):
            refused = await call("index_sources", kind="document", path=path)
            assert refused.is_error
            assert "is outside the project" in said(refused)
        missing = await call("index_sources", kind="document", path="none")
        structure(await call("index_sources", kind="document"))
        found = structure(await call("search_sources", query="password of the vault"))
    assert "does not exist" in said(missing)
    assert all("password" not in hit["text"] for hit in found["hits"])
    async with connected(place, sources={"allowed_folders": ("/none", str(outside))}) as call:
        done = structure(await call("index_sources", kind="document", path=str(outside)))
    assert done["result"]["location"] == str(outside)


async def test_the_database_itself_is_never_read(place: Location) -> None:
    (place.root / ".gitignore").write_text("!.swarm/\n!.swarm/**\n")
    async with connected(place) as call:
        structure(await call("memory_status"))
        refused = await call("index_sources", kind="document", path=".swarm/memory.db")
        everything = structure(await call("index_sources", kind="document"))
    assert refused.is_error
    assert "belongs to the memory database" in said(refused)
    assert not any(".swarm" in fault["group"] for fault in everything["result"].get("faults", []))


async def test_servers_of_a_project_are_started_only_where_the_user_allows_it(place: Location) -> None:
    servers = {"mcpServers": {"tiny": tiny_server(place.root, "add_numbers")}}
    (place.root / ".mcp.json").write_text(json.dumps(servers))
    async with connected(place) as call:
        refused = await call("index_sources", kind="tool")
    assert refused.is_error
    assert "sources.allow_mcp_servers" in said(refused)
    assert not (place.root / "started").exists()
    async with connected(place, sources={"allow_mcp_servers": (str(place.root),)}) as call:
        done = structure(await call("index_sources", kind="tool"))
        found = structure(await call("search_sources", query="the sum of two numbers", kind="tool"))
    assert done["result"]["passages"] == 1
    (hit,) = found["hits"]
    assert (hit["title"], hit["where"], hit["use"]["server"]) == ("add_numbers", "tiny", "tiny")
    assert set(hit["use"]["input_schema"]["properties"]) == {"first", "second"}


async def test_an_answer_is_within_the_limit_and_says_how_to_go_on(place: Location) -> None:
    for number in range(20):
        text = f"# Chapter {number}\n\n" + f"The river number {number} flows to the sea. " * 12
        (place.root / "docs" / f"chapter{number:02}.md").write_text(text)
    async with connected(place, output={"max_tokens": 900}) as call:
        structure(await call("index_sources", kind="document", path="docs"))
        whole: list[str] = []
        offset = 0
        for _ in range(30):
            result = await call("search_sources", query="which river flows to the sea", k=20, offset=offset)
            page = structure(result)
            assert count_tokens(said(result)) <= 900
            assert json.loads(said(result)) == page
            if not page["hits"]:
                break
            whole += [hit["where"] for hit in page["hits"]]
            offset = len(whole)
            if "cut" in page:
                assert f"offset={offset}" in page["cut"]["how"]
                assert page["cut"]["left_out_tokens"] > 0
    assert len(set(whole)) == len(whole) == 21


async def test_nothing_indexed_nothing_asked_and_nothing_found_say_what_to_do(place: Location) -> None:
    async with connected(place) as call:
        done = structure(await call("index_sources", kind="api", path="docs"))
        empty = structure(await call("search_sources", query="anything"))
        blank = await call("search_sources", query=" ")
        many = await call("search_sources", query="x", k=500)
    assert "no api was found there; this kind reads OpenAPI 3" in done["result"]["reason"]
    assert empty["hits"] == []
    assert "no source is indexed: use index_sources" in empty["reason"]
    assert "query is empty" in said(blank)
    assert "k: Input should be less than or equal to 50" in said(many)


@pytest.mark.parametrize("asked", [{"kind": "document", "path": "nowhere"}, {"kind": "tool", "path": ".mcp.json"}])
async def test_what_is_refused_leaves_no_job(place: Location, asked: dict[str, str]) -> None:
    (place.root / ".mcp.json").write_text(json.dumps({"mcpServers": {"x": {"command": "x"}}}))
    async with connected(place) as call:
        refused = await call("index_sources", **asked)
        jobs = structure(await call("job", action="list"))
    assert refused.is_error
    assert jobs["jobs"] == []


OFFSET = 10


def tokens(value: Any) -> int:
    return count_tokens(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def test_a_long_text_is_cut_between_words() -> None:
    text = "word " * 5000
    cut = capped({"preamble": text, "ids": ["a"]}, 1000)
    assert tokens(cut) <= 1000
    assert cut["preamble"].endswith("word word …")
    assert "ask for less at a time" in cut["cut"]["how"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=400),
    lambda part: st.lists(part, max_size=8) | st.dictionaries(st.text(max_size=10), part, max_size=6),
    max_leaves=40,
)


@given(answer=st.dictionaries(st.text(min_size=1, max_size=8), JSON, max_size=6), limit=st.integers(150, 600))
def test_whatever_is_answered_is_within_the_limit_and_never_silent_about_it(answer: dict[str, Any], limit: int) -> None:
    if not is_within(answer, limit):
        cut = capped(answer, limit, OFFSET)
        assert tokens(cut) <= limit
        assert cut["cut"]["left_out_tokens"] > 0
