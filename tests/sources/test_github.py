"""A repository of GitHub: indexed through the API, found with path, address and SHA, within bounds."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from laid_bank import opened_bank

from swarm_memory.schema.errors import ConfigError, InputError, NotFoundError, SourceUnavailable
from swarm_memory.schema.settings import Settings, SourceSettings
from swarm_memory.schema.source import IndexedSource
from swarm_memory.server.operations.tools_and_sources import of_passage
from swarm_memory.server.sources import github
from swarm_memory.server.sources.github import GitHub, Repository
from swarm_memory.server.sources.indexing import IndexRequest, Leave, check, index
from swarm_memory.tools.ports.sources import FoundPassage
from swarm_memory.tools.sources.sources import search_sources
from swarm_memory.tools.toolbox import Toolbox
from tests.sources.github_api import GitHubApi, archived, blob_sha

pytestmark = pytest.mark.enable_socket

TILL = b'''"""The till."""


def close_day(till):
    """Count the cash and write the report of the day."""
    return sum(till)


def refund(order, password="hunter2-Xk91mQ-secret"):
    """Give money back for an order."""
    return -order.total
'''
README = b"# Shop\n\nStart the till with `make till`. Orders are kept in PostgreSQL.\n"
MINE = Leave(any_repository=True)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHubApi]:
    for name in github.TOKEN_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    files = {
        "README.md": README,
        "src/till.py": TILL,
        "logo.png": b"\x89PNG",
        "node_modules/x/a.js": b"function a() {}",
    }
    with GitHubApi(files) as served:
        yield served


@pytest.fixture
async def toolbox(tmp_path: Path, api: GitHubApi) -> AsyncIterator[Toolbox]:
    settings = Settings(sources=SourceSettings(github_url=api.url))
    async with opened_bank(tmp_path / ".swarm" / "memory.db", settings=settings) as opened:
        yield opened


async def indexed(toolbox: Toolbox, path: str = "acme/shop") -> IndexedSource:
    return await index(toolbox, IndexRequest(kind="github", path=path), Path("/nowhere"), MINE)


async def best(toolbox: Toolbox, query: str) -> FoundPassage:
    return (await search_sources(toolbox, query, kind="github")).hits[0]


async def test_what_a_repository_is_its_readme_tree_and_functions_are_found(toolbox: Toolbox, api: GitHubApi) -> None:
    done = await indexed(toolbox)
    assert (done.location, done.added, done.faults, done.notices) == ("github:acme/shop", 4, (), ())
    about = (await best(toolbox, "small shop stars license MIT")).passage
    assert (about.title, about.description) == ("acme/shop", "A small shop with a till")
    assert about.data["stars"] == 321
    assert [about.data[name] for name in ("language", "license", "last_updated")] == [
        "Python",
        "MIT",
        "2026-03-01T10:00:00Z",
    ]
    function = of_passage(await best(toolbox, "count the cash at the end of the day"))
    assert (function["title"], function["where"]) == ("close_day", "src/till.py:4-6")
    assert function["sha"] == blob_sha(TILL)
    assert function["url"] == f"https://github.com/acme/shop/blob/{api.commit}/src/till.py#L4-L6"
    assert (await best(toolbox, "how is the till started, make till")).passage.path == "README.md"
    everything = json.dumps(
        [
            hit.passage.model_dump(mode="json")
            for hit in (await search_sources(toolbox, "refund order password", k=50)).hits
        ]
    )
    assert "hunter2" not in everything
    assert "node_modules/x/a.js" in (await best(toolbox, "files of the tree logo.png node_modules")).passage.content


async def test_a_second_time_only_what_changed_is_read(toolbox: Toolbox, api: GitHubApi) -> None:
    await indexed(toolbox)
    archive = f"/tarball/{api.commit}"
    assert [path.partition("?")[0] for path, _ in api.asked()] == [
        "", "/commits/HEAD", archive, f"/archives/{api.commit}"
    ]  # fmt: skip
    done = await indexed(toolbox)
    assert (done.unchanged, done.changed, done.removed, done.passages) == (4, 0, 0, 0)
    assert [path.partition("?")[0] for path, _ in api.asked()] == ["", "/commits/HEAD"]
    api.files["src/till.py"] = TILL.replace(b"close_day", b"close_the_day")
    api.files["src/stock.py"] = b"def count_stock(shelf):\n    return len(shelf)\n"
    del api.files["README.md"]
    done = await indexed(toolbox)
    assert (done.added, done.changed, done.removed) == (1, 2, 1)
    assert (await best(toolbox, "count the cash")).passage.title == "close_the_day"


async def test_a_ref_is_a_source_of_its_own_and_an_unknown_one_is_refused(toolbox: Toolbox, api: GitHubApi) -> None:
    assert (await indexed(toolbox, "https://github.com/acme/shop.git@v1.0")).location == "github:acme/shop@v1.0"
    assert ("/commits/v1.0", 200) in api.asked()
    with pytest.raises(NotFoundError, match="no such thing"):
        await indexed(toolbox, "acme/shop@v9")


async def test_the_token_comes_from_the_environment_and_goes_to_that_host_alone(
    toolbox: Toolbox, api: GitHubApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_secret")
    await indexed(toolbox)
    assert {each.get("authorization") for each in api.headers} == {"Bearer ghp_secret"}
    with GitHubApi() as other:
        api.answers["/repos/acme/shop"] = (301, {"location": f"{other.url}/repositories/1"}, b"")
        with pytest.raises(SourceUnavailable, match="another host"):
            await indexed(toolbox)
        assert other.requests == []
    api.answers["/repos/acme/shop"] = (301, {"location": f"{api.url}/repositories/1"}, b"")
    api.answers["/repositories/1"] = (200, {}, json.dumps({"html_url": "https://github.com/acme/store"}).encode())
    await indexed(toolbox)
    api.answers.clear()
    api.token = "another"
    with pytest.raises(ConfigError, match="refused the token") as refused:
        await indexed(toolbox)
    assert "ghp_secret" not in str(refused.value)


async def test_what_fails_at_the_api_is_said(toolbox: Toolbox, api: GitHubApi) -> None:
    for status in (500, 503):
        api.answers["/repos/acme/shop"] = (status, {}, b"")
        with pytest.raises(SourceUnavailable, match=f"HTTP {status}"):
            await indexed(toolbox)
    for status, headers in ((429, {}), (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1790000000"})):
        api.answers["/repos/acme/shop"] = (status, headers, b"")
        with pytest.raises(SourceUnavailable, match=r"no more requests .*GH_TOKEN or GITHUB_TOKEN"):
            await indexed(toolbox)
    api.answers["/repos/acme/shop"] = (200, {}, b"<html>")
    with pytest.raises(SourceUnavailable, match="not JSON"):
        await indexed(toolbox)
    api.answers["/repos/acme/shop"] = (200, {}, b" " * (github.MAX_ANSWER_BYTES + 1))
    with pytest.raises(SourceUnavailable, match="more than 20,000,000 bytes"):
        await indexed(toolbox)


async def test_odd_answers_break_nothing(toolbox: Toolbox, api: GitHubApi) -> None:
    api.about = {
        "stargazers_count": "many",
        "license": "MIT",
        "topics": 7,
        "html_url": "javascript:alert(1)",
        "description": None,
    }
    assert (await indexed(toolbox)).added == 4
    about = [hit.passage for hit in (await search_sources(toolbox, "acme shop", kind="github")).hits]
    assert "https://github.com/acme/shop" in [passage.data["url"] for passage in about]
    assert "many" not in about[0].content
    api.answers["/repos/acme/shop/commits/HEAD"] = (200, {}, b"../../x")
    with pytest.raises(InputError, match="no SHA"):
        await indexed(toolbox)


@pytest.mark.parametrize("packed", [b"", b"no archive", archived({"a.py": b"x = 1\n"})[:-20]])
async def test_an_archive_that_cannot_be_read_is_reported_and_leaves_what_was_indexed(
    toolbox: Toolbox, api: GitHubApi, packed: bytes
) -> None:
    await indexed(toolbox)
    api.files["new.py"] = b"def new(): pass\n"
    api.answers[f"/archives/{api.commit}"] = (200, {}, packed)
    with pytest.raises(SourceUnavailable, match="no archive that can be read"):
        await indexed(toolbox)
    assert (await best(toolbox, "count the cash")).passage.title == "close_day"


async def test_no_more_files_and_bytes_are_read_than_a_run_may(
    toolbox: Toolbox, api: GitHubApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(github, "MAX_FILES", 2)
    api.files |= {"a.py": b"def a(): pass\n", "huge.py": b"x = 1\n" * 300_000}
    done = await indexed(toolbox)
    assert done.notices == ("of 3 files the 2 nearest to the root are read",)
    api.files["b.py"] = b"def b(): pass\n"
    monkeypatch.setattr(github, "MAX_UNPACKED_BYTES", 1_000_000)
    with pytest.raises(SourceUnavailable, match="unpacks to more than"):
        await indexed(toolbox)
    monkeypatch.setattr(github, "MAX_ARCHIVE_BYTES", 100)
    with pytest.raises(SourceUnavailable, match="more than 100 bytes"):
        await indexed(toolbox)


@pytest.mark.parametrize(
    ("to", "is_followed"),
    [
        ("https://codeload.github.com/acme/shop", True),
        ("https://api.github.com/x", True),
        ("http://codeload.github.com/acme/shop", False),
        ("https://codeload.github.com.evil.example/x", False),
        ("https://evil.example/x", False),
        ("file:///etc/passwd", False),
    ],
)
async def test_archives_may_lie_on_githubs_own_second_host_and_nowhere_else(to: str, is_followed: bool) -> None:
    async with GitHub("https://api.github.com", "ghp_secret") as connection:
        with nullcontext() if is_followed else pytest.raises(SourceUnavailable, match="another host"):
            await connection.check(httpx.Request("GET", to))


async def test_the_token_stays_where_a_redirection_leads_away_from_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    with GitHubApi() as other, GitHubApi() as api:
        api.answers["/x"] = (302, {"location": f"{other.url}/archives/1"}, b"")
        async with GitHub(api.url, "ghp_secret") as connection:
            monkeypatch.setattr(connection, "_archives", other.url)
            await connection.get("/x")
        assert "authorization" in api.headers[0]
        assert "authorization" not in other.headers[0]


async def test_an_agent_reads_only_repositories_that_the_user_allowed(toolbox: Toolbox, api: GitHubApi) -> None:
    asked = IndexRequest(kind="github", path="Acme/Shop")
    with pytest.raises(ConfigError, match=r"sources\.allow_github"):
        await index(toolbox, asked, Path("/nowhere"))
    assert api.requests == []
    for allowed in (("acme/shop",), ("x/y", "acme/*"), ("*",)):
        sources = toolbox.settings.sources.model_copy(update={"allow_github": allowed})
        settings = toolbox.settings.model_copy(update={"sources": sources})
        await check(replace(toolbox, settings=settings), asked, Path("/nowhere"))


@pytest.mark.parametrize(
    "path",
    [
        "",
        "shop",
        "acme/..",
        "acme/shop/issues",
        "acme/shop@../x",
        "acme/shop@-x",
        "-a/b",
        "a b/c",
        "https://evil.example/a/b",
        "acme/shop?x=1",
    ],
)
def test_what_names_no_repository_is_refused(path: str) -> None:
    with pytest.raises(InputError, match="OWNER/REPO"):
        Repository.of(path)


@pytest.mark.parametrize("url", ["http://api.github.com", "ftp://x", "api.github.com", "http://127.0.0.1.evil.example"])
def test_an_address_without_https_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="https://"):
        GitHub(url, "ghp_secret")
