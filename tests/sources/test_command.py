"""`swarm-memory sources`, as a person would use it in a shell."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from made_files import written
from shell import Ran, Shell, project, swarm

__all__ = ["project", "swarm"]

Sources = Callable[..., Ran]


@pytest.fixture
def shop(project: Path, tmp_path: Path) -> Path:
    """A project with a document, a list of functions and a `.mcp.json`, in which the commands run."""
    (project / "guide.md").write_text("# Guide\n\nThe retry limit stands in settings.toml.\n")
    (project / "tools.json").write_text(json.dumps([{"name": "add", "description": "Adds two numbers."}]))
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"x": {"command": str(tmp_path / "never")}}}))
    return project


@pytest.fixture
def sources(shop: Path, swarm: Shell) -> Sources:
    """Return a function that runs `swarm-memory sources` in that project."""
    return partial(swarm, "sources")


def test_what_is_indexed_is_found_listed_and_removed(sources: Sources) -> None:
    assert sources("index", "--kind", "document", "--json").json["added"] == 1
    assert sources("index", "tools.json", "--kind", "tool", "--json").json["passages"] == 1
    (hit, *_) = sources("search", "where is the retry limit", "--json").json["hits"]
    assert (hit["where"].partition(":")[0], hit["source"]) == ("guide.md", ".")
    assert "add" in sources("search", "sum of numbers", "--kind", "tool").out
    assert [(each["kind"], each["location"]) for each in sources("list", "--json").json] == [
        ("document", "."),
        ("tool", "tools.json"),
    ]
    assert sources("list", "--remove", ".", "--kind", "document", "--json").json == {"passages": 1}
    assert sources("search", "retry limit", "--kind", "document", "--json").json["hits"] == []


def test_kinds_are_known_by_the_files(shop: Path, sources: Sources) -> None:
    functions: Any = [
        {"name": "add", "description": "Adds.", "inputSchema": {"type": "object", "properties": {"a": {}}}}
    ]
    operations = {"/orders": {"get": {"operationId": "listOrders", "summary": "Lists orders"}}}
    (shop / "tools.json").write_text(json.dumps(functions))
    (shop / "shop.yaml").write_text(json.dumps({"openapi": "3.1.0", "paths": operations}))
    (shop / "settings.json").write_text('{"retries": 3}')
    (shop / "shop.py").write_text('"""The shop."""\n\n\ndef order() -> None:\n    """Orders."""\n')
    done = sources("index")
    assert (done.code, done.err) == (0, "")
    lines = [line for line in done.out.splitlines() if line.startswith(("kind", "added"))]
    kinds = ("kind: tool", "added: 1", "kind: document", "added: 1", "kind: code", "added: 1", "kind: api", "added: 1")
    assert lines == list(kinds)
    by_file = {"shop.py": "code", "shop.yaml": "api", "tools.json": "tool", "settings.json": "document"}
    for name, kind in by_file.items():
        assert sources("index", name, "--json").json["kind"] == kind
    assert sources("list", "--remove", ".").code == 0
    assert {each["location"] for each in sources("list", "--json").json} == {*by_file}


ENDPOINTS: Any = {
    "search/products": {
        "description": "Find products within a budget",
        "parameters": [{"name": "q", "type": "str", "required": True}, {"name": "in_stock", "type": "BOOLEAN"}],
    },
    "product/{sku}": {"description": "One product", "parameters": [{"name": "sku", "type": "str"}]},
}
"""The shape of RapidAPI's collections."""


def test_endpoints_in_rapidapis_shape_are_indexed_and_found(shop: Path, sources: Sources) -> None:
    (shop / "shop.json").write_text(json.dumps({"base_url": "https://shop.example", "endpoints": ENDPOINTS}))
    assert sources("index", "shop.json", "--json").json["kind"] == "api"
    (hit, *_) = sources("search", "what can I buy for my budget", "--json").json["hits"]
    assert (hit["title"], hit["kind"], hit["use"]["method"]) == ("search/products", "api", "GET")
    assert hit["use"]["servers"] == ["https://shop.example"]
    assert hit["use"]["input_schema"]["properties"]["in_stock"] == {"type": "boolean", "in": "query"}


def test_what_looked_like_an_api_and_was_read_as_a_document_is_named(shop: Path, sources: Sources) -> None:
    half = {**ENDPOINTS, "product/details": {"description": "without parameters"}}
    (shop / "half.json").write_text(json.dumps(half))
    (shop / "paths.yaml").write_text("paths:\n  /items:\n    get: {summary: Items}\n")
    (shop / "notes.json").write_text('{"title": "Notes"}')
    for name, is_named in (("half.json", True), ("paths.yaml", True), ("notes.json", False)):
        done = sources("index", name, "--json").json
        assert done["kind"] == "document"
        assert any(f"{name} looks like an API description" in notice for notice in done["notices"]) == is_named


def test_a_folder_with_nothing_that_is_known_and_a_config_of_servers_say_what_to_do(
    shop: Path, sources: Sources
) -> None:
    written(shop / "bin" / "x.dat", b"\0\1")
    done = sources("index", "bin")
    assert done.code == 2
    assert "holds no document, code" in done.err
    done = sources("index", ".mcp.json")
    assert done.code == 1
    assert "--start-servers" in done.err


def test_no_server_is_started_without_leave(sources: Sources) -> None:
    done = sources("index", "--kind", "tool")
    assert done.code == 3
    assert "--start-servers" in done.err
    done = sources("index", "--kind", "tool", "--start-servers", "--json")
    assert done.code == 1
    assert done.json["faults"][0]["group"] == "x"


def test_what_is_not_there_or_of_another_kind_is_an_exit_code_and_leaves_no_source(sources: Sources) -> None:
    assert sources("index", "none", "--kind", "code").code == 2
    assert sources("index", "none").code == 2
    assert sources("list", "--remove", "none", "--kind", "code").code == 2
    assert sources("list", "--remove", "none").code == 2
    done = sources("index", "guide.md", "--kind", "api")
    assert done.code == 1
    assert "reason: nothing from guide.md is indexed: 1 found, none could be read" in done.out
    assert sources("list", "--json").json == []
