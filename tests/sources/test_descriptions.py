"""Descriptions of tools and APIs as files: function lists, OpenAPI, .mcp.json; and hostile ones of each."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.source import Passage
from swarm_memory.server.sources import openapi, tool_lists
from swarm_memory.server.sources.files import Group
from swarm_memory.server.sources.openapi import parse_api, read_openapi
from swarm_memory.server.sources.tool_lists import (
    MAX_PARAMETERS,
    MAX_SERVERS,
    McpServer,
    described_parameters,
    read_config,
    read_json_tools,
)

Read = Callable[[Path], Iterator[Group]]

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Name of the city"}, "days": {"type": "integer"}},
    "required": ["city"],
}


def passages(read: Read, folder: Path, text: str, name: str = "tools.json") -> list[Passage]:
    """Write a file and return what is read from that file alone."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    (group,) = read(path)
    return list(group.parse())


@pytest.mark.parametrize(
    "document",
    [
        [{"type": "function", "function": {"name": "weather", "description": "Forecast.", "parameters": SCHEMA}}],
        [{"name": "weather", "description": "Forecast.", "parameters": SCHEMA}],
        [{"name": "weather", "description": "Forecast.", "input_schema": SCHEMA}],
        {"tools": [{"name": "weather", "description": "Forecast.", "inputSchema": SCHEMA}]},
        {"functions": [{"name": "weather", "description": "Forecast.", "parameters": SCHEMA}]},
        {"name": "weather", "description": "Forecast.", "parameters": SCHEMA},
        {"title": "weather", "description": "Forecast.", **SCHEMA},
    ],
    ids=["openai", "plain", "anthropic", "mcp", "functions", "one", "schema"],
)
def test_every_usual_form_of_a_function_list_is_read(tmp_path: Path, document: Any) -> None:
    (tool,) = passages(read_json_tools, tmp_path, json.dumps(document))
    assert (tool.kind, tool.title, tool.description) == ("tool", "weather", "Forecast.")
    assert tool.content.splitlines() == ["city (string, required): Name of the city", "days (integer)"]
    schema = tool.data["input_schema"]
    assert isinstance(schema, dict)
    assert schema["required"] == ["city"]


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"a": NaN}', '[{"x": 1}]', "[" * 100_000])
def test_what_is_no_function_list_says_so(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError):
        passages(read_json_tools, tmp_path, text)


def test_in_a_folder_other_json_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "shop", "description": "A shop."}')
    (tmp_path / "people.json").write_text('[{"name": "x", "description": "y"}]')
    (tmp_path / "tools.json").write_text(json.dumps([{"name": "weather", "parameters": SCHEMA}]))
    assert [group.group for group in read_json_tools(tmp_path)] == ["tools.json"]


def test_parameters_within_parameters_are_named_and_have_an_end() -> None:
    deep: dict[str, Any] = {"type": "string", "enum": ["a", "b"]}
    for _ in range(50):
        deep = {"type": "object", "properties": {"inner": deep}}
    assert described_parameters(deep).count("inner") == 1 + 2 + 3 + 4
    wide = {"properties": {f"p{n}": {"type": "array", "items": SCHEMA} for n in range(1000)}}
    lines = described_parameters(wide).splitlines()
    assert (lines[1], len(lines)) == ("p0[].city (string, required): Name of the city", MAX_PARAMETERS)
    assert f"{tool_lists.READER} {tool_lists.SERVERS_READER} {openapi.READER}" == "json_tools-2 tools_mcp-2 openapi-4"
    assert "a1B2" not in described_parameters({"properties": {"k": {"enum": ["key " * 9 + "token=a1B2c3D4e5F6g7H8"]}}})


OPENAPI = """
openapi: 3.1.0
info: {title: Shop}
servers: [{url: "https://shop.example/v1"}]
paths:
  /orders/{id}:
    parameters: [{$ref: "#/components/parameters/Id"}]
    get:
      operationId: getOrder
      summary: Returns one order.
      responses: {200: {description: The order}, 404: {$ref: "#/components/responses/Missing"}}
    put:
      summary: Changes an order.
      requestBody: {required: true, content: {application/json: {schema: {$ref: "#/components/schemas/Order"}}}}
components:
  parameters: {Id: {name: id, in: path, required: true, description: Number of the order, schema: {type: integer}}}
  responses: {Missing: {description: No such order}}
  schemas:
    Order: {type: object, properties: {item: {type: string}, next: {$ref: "#/components/schemas/Order"}}}
"""


def test_the_operations_of_openapi_are_read_with_their_references(tmp_path: Path) -> None:
    get, put = passages(read_openapi, tmp_path, OPENAPI, "api.yaml")
    assert (get.kind, get.title, get.description) == ("api", "getOrder", "Returns one order.")
    assert get.content.splitlines() == [
        "GET /orders/{id}",
        "id (integer, required): Number of the order",
        "of Shop",
        "200: The order",
        "404: No such order",
    ]
    assert get.data["servers"] == ["https://shop.example/v1"]
    assert put.title == "PUT /orders/{id}"
    assert "body.item (string)" in put.content
    assert "body.next.item (string)" in put.content
    in_json = passages(read_openapi, tmp_path, json.dumps(yaml.safe_load(OPENAPI)), "api.json")
    assert [each.content for each in in_json] == [get.content, put.content]


ALIASES = "openapi: 3.0.0\nx: &a [1]\n" + "y: [" + ", ".join(["*a"] * 2000) + "]\n"
LOOP = "openapi: 3.0.0\npaths: {/a: {get: {requestBody: {content: {x: {schema: &a {properties: {b: *a}}}}}}}}\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"swagger": "2.0", "paths": {}}', "convert it to OpenAPI 3"),
        ("a: 1", "not an API description"),
        ("a: [", "not valid YAML"),
        (ALIASES, "YAML aliases"),
        ("!!bool maybe", "not valid YAML"),
    ],
)
def test_what_is_no_api_description_says_so(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        passages(read_openapi, tmp_path, text, "api.yaml")


def test_references_without_end_come_to_an_end(tmp_path: Path) -> None:
    (operation,) = passages(read_openapi, tmp_path, LOOP, "api.yaml")
    assert len(json.dumps(operation.data)) < 100_000
    wide = {f"S{n}": {"properties": {f"p{m}": {"$ref": f"#/c/S{n + 1}"} for m in range(9)}} for n in range(40)}
    body = {"content": {"x": {"schema": {"$ref": "#/c/S0"}}}}
    text = json.dumps({"openapi": "3.0.0", "c": wide, "paths": {"/a": {"post": {"requestBody": body}}}})
    (operation,) = passages(read_openapi, tmp_path, text, "wide.json")
    assert len(json.dumps(operation.data)) < 200_000


ARGUMENTS: dict[str, Any] = {
    "/items/{id}": {
        "servers": [{"url": "https://items.example"}],
        "get": {
            "operationId": "find",
            "servers": [{"url": "https://find.example"}],
            "parameters": [
                {"name": "page", "in": "query", "schema": {"minimum": 0, "exclusiveMinimum": True}},
                {"name": "version", "in": "query", "schema": {}},
                {"name": "version", "in": "header", "schema": {}},
            ],
        },
        "patch": {"requestBody": {"content": {"text/csv": {}, "application/merge-patch+json": {}}}},
        "post": {"requestBody": {"content": {"text/csv": {}, "application/json; charset=utf-8": {}}}},
    }
}


def test_an_operation_says_where_each_argument_goes_and_its_nearest_address(tmp_path: Path) -> None:
    description = {"openapi": "3.0.3", "servers": [{"url": "https://far.example"}], "paths": ARGUMENTS}
    found: dict[str, Any] = {
        each.title: each.data for each in passages(read_openapi, tmp_path, json.dumps(description), "api.json")
    }
    assert {title: data["input_schema"]["properties"] for title, data in found.items()} == {
        "find": {"page": {"minimum": 0, "in": "query"}, "version": {"in": "query and header"}},
        "PATCH /items/{id}": {"body": {"in": "application/merge-patch+json"}},
        "POST /items/{id}": {"body": {"in": "body"}},
    }
    assert found["find"]["servers"] == ["https://find.example"]
    assert found["POST /items/{id}"]["servers"] == ["https://items.example"]


def test_a_description_in_yaml_may_have_numbers_for_names() -> None:
    operation = b"{operationId: a, requestBody: {content: {7: {}}}}"
    (found,) = parse_api("api.yaml", b"openapi: 3.0.0\npaths:\n  /a:\n    post: " + operation)
    assert found.data["input_schema"] == {"type": "object", "properties": {"body": {"in": "7"}}}
    assert [each.title for each in parse_api("api.yaml", b"7: {parameters: []}")] == ["7"]


@pytest.mark.parametrize(
    ("endpoints", "fault"),
    [
        ({"a": {"parameters": [], "method": "FETCH"}}, "a cannot be called with FETCH"),
        ({"a": {"parameters": [], "method": ["GET"]}}, r"a cannot be called with \['GET'\]"),
        ({"a": {"parameters": []}, "/a": {"parameters": [], "method": "get"}}, "/a cannot be called with GET"),
    ],
)
def test_an_endpoint_that_would_be_lost_is_a_fault(endpoints: dict[str, Any], fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        parse_api("shop.json", json.dumps({"b": {"parameters": []}, **endpoints}).encode())
    endpoints["a"]["method"] = "post"
    assert len(parse_api("shop.json", json.dumps(endpoints).encode())) == len(endpoints)


def test_servers_are_named_as_claude_code_names_them(tmp_path: Path) -> None:
    config = {
        "mcpServers": {
            "local": {"command": "${TOOL}", "args": ["--root", "${ROOT:-/srv}", "$TOOL"], "env": {"KEY": "${NONE}"}},
            "remote": {"type": "http", "url": "https://${HOST}/mcp", "headers": {"authorization": "Bearer ${TOKEN}"}},
            "old": {"type": "sse", "url": "https://x.example/sse"},
            "empty": {},
            "swarm-memory": {"command": "/usr/bin/python3", "args": ["-I", "-m", "swarm_memory.server.cli", "serve"]},
            "same": {"command": "uvx", "args": ["swarm-memory", "serve"]},
        }
    }
    path = tmp_path / ".mcp.json"
    path.write_text(json.dumps(config))
    found = read_config(path, {"TOOL": 'the "server"', "HOST": "h.example", "TOKEN": "t"})
    local, remote = found["local"], found["remote"]
    assert isinstance(local, McpServer)
    assert isinstance(remote, McpServer)
    assert (local.command, local.args) == ('the "server"', ("--root", "/srv", "$TOOL"))
    assert local.env == {"KEY": "${NONE}"}
    assert (remote.url, remote.headers) == ("https://h.example/mcp", {"authorization": "Bearer t"})
    assert "type: Input should be" in str(found["old"])
    assert "neither a command nor an http address" in str(found["empty"])
    assert list(found) == ["local", "remote", "old", "empty"]


MANY = json.dumps({"mcpServers": {f"s{n}": {"command": "x"} for n in range(MAX_SERVERS + 1)}})


@pytest.mark.parametrize("text", ["", "[]", '{"servers": {}}', '{"mcpServers": []}', MANY])
def test_what_names_no_servers_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"\.mcp\.json"):
        read_config(path, {})
