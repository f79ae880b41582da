"""Operations of an API that is indexed, called by name against a local server: what is sent, and what is refused."""

import json
import re
import threading
from collections.abc import Generator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from loopback import Asked, Loopback, Reply
from shell import Shell, project, swarm

from swarm_memory.schema.errors import InputError, NotFoundError, SourceUnavailable
from swarm_memory.schema.source import Passage
from swarm_memory.server.sources import api_calls
from swarm_memory.server.sources.api_calls import ApiToolbox, request_of
from swarm_memory.server.sources.indexing import IndexRequest, Leave, index
from swarm_memory.server.sources.openapi import parse_api
from swarm_memory.tools.toolbox import Toolbox

__all__ = ["project", "swarm"]

pytestmark = [pytest.mark.allow_hosts(["127.0.0.1"])]

Json = dict[str, Any]

ENDPOINTS: dict[str, Any] = {
    "search/products": {
        "description": "Find products within a budget",
        "parameters": [
            {"name": "q", "type": "str", "description": "Words", "required": True},
            {"name": "max_price", "type": "float"},
            {"name": "in_stock", "type": "BOOLEAN"},
        ],
    },
    "product/{sku}": {"description": "One product", "parameters": [{"name": "sku", "type": "str"}]},
}
"""The shape of AutoAgent's chapter on RapidAPI."""


class Shop(Loopback):
    """An API that answers what it was asked, or what a test says of a path."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.replies: dict[str, Reply] = {}
        self.gate = threading.Event()
        self.listen()

    def reply(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        body = {"method": asked.method, "path": asked.path, "body": asked.body.decode()}
        return self.replies.get(asked.path, Reply(200, json.dumps(body).encode()))

    def answer(self, to: BaseHTTPRequestHandler, asked: Asked) -> None:
        if asked.path.endswith("/slow"):
            self.gate.wait(30)
        super().answer(to, asked)


@pytest.fixture
def shop() -> Generator[Shop]:
    with Shop() as running:
        yield running
        running.gate.set()


def openapi(url: str) -> str:
    """Return a description in OpenAPI: reading by id, making, and a path that is slow."""
    item = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    tags = {"name": "tag", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}}
    trace = {"name": "X-Trace", "in": "header", "schema": {"type": "string", "maxLength": 9}}
    made = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    body = {"required": True, "content": {"application/json": {"schema": made}}}
    paths: Json = {
        "/items/{id}": {"get": {"operationId": "getItem", "parameters": [item, tags, trace]}},
        "/items": {"post": {"operationId": "addItem", "requestBody": body}},
        "/slow": {"get": {}},
    }
    return json.dumps({"openapi": "3.1.0", "info": {"title": "Shop"}, "servers": [{"url": url}], "paths": paths})


async def indexed(toolbox: Toolbox, folder: Path, text: str) -> ApiToolbox:
    (folder / "api.json").write_text(text, encoding="utf-8")
    done = await index(toolbox, IndexRequest(kind="api", path="api.json"), folder, Leave(any_folder=True))
    assert done.faults == ()
    return ApiToolbox(toolbox, {"authorization": "Bearer key"}, "127.0.0.1")


async def test_an_operation_is_called_with_its_arguments_where_they_belong(
    toolbox: Toolbox, tmp_path: Path, shop: Shop
) -> None:
    api = await indexed(toolbox, tmp_path, openapi(f"{shop.url}/v1/"))
    got = await api.call("getItem", {"id": "../a b/%2e?x#y", "tag": ["red", "b&w"], "X-Trace": "t1"})
    assert (got.status, got.content_type) == (200, "application/json")
    assert json.loads(got.text)["path"] == "/v1/items/..%2Fa%20b%2F%252e%3Fx%23y?tag=red&tag=b%26w"
    assert (shop.asked[0].headers["x-trace"], shop.asked[0].headers["authorization"]) == ("t1", "Bearer key")
    made = json.loads((await api.call("addItem", {"body": {"name": "lamp"}})).text)
    assert (made["method"], json.loads(made["body"])) == ("POST", {"name": "lamp"})


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        ("getItem", {}, "'id' is a required property"),
        ("getItem", {"id": 3}, "id: 3 is not of type 'string'"),
        ("getItem", {"id": ".."}, r"id is '..' and goes into the path"),
        ("getItem", {"id": "1", "tag": "red"}, "is not of type 'array'"),
        ("getItem", {"id": "1", "X-Trace": "a" * 10}, "too long"),
        ("getItem", {"id": "1", "X-Trace": "a\r\nb: c"}, "gave no answer that can be read"),
        ("getItem", {"id": "1", "limit": 3}, "it takes no limit: id, tag, X-Trace"),
        ("addItem", {"body": {"title": "lamp"}}, "body: 'name' is a required property"),
        ("dropItems", {}, "no operation is called 'dropItems'"),
    ],
)
async def test_arguments_that_the_schema_refuses_are_not_sent(
    toolbox: Toolbox, tmp_path: Path, shop: Shop, name: str, arguments: Json, complaint: str
) -> None:
    api = await indexed(toolbox, tmp_path, openapi(shop.url))
    with pytest.raises((InputError, NotFoundError, SourceUnavailable), match=complaint):
        await api.call(name, arguments)
    assert shop.asked == []


@pytest.mark.parametrize(
    "url",
    ["", "/v1", "file:///etc/passwd", "ftp://x.example", "//x.example", "https://user@x.example", "https://{host}/v1"],
)
def test_an_address_that_is_none_is_asked_for(url: str) -> None:
    (_, operation, _) = parse_api("api.json", openapi(url).encode())
    with pytest.raises(InputError, match="has no address that can be asked"):
        request_of(operation, {"body": {"name": "lamp"}}, {})


UNUSUAL: Json = {
    "openapi": "3.0.3",
    "paths": {
        "/items/{id}": {
            "get": {
                "operationId": "find",
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {}},
                    {"name": "page", "in": "query", "schema": {"minimum": 0, "exclusiveMinimum": True}},
                    {"name": "where", "in": "query", "schema": {}},
                    {"name": "version", "in": "query", "schema": {"type": "string"}},
                    {"name": "version", "in": "header", "schema": {"type": "string"}},
                    {"name": "session", "in": "cookie", "schema": {}},
                    {"name": "X-List", "in": "header", "schema": {}},
                ],
            }
        },
        "/form": {
            "post": {
                "operationId": "send",
                "requestBody": {"content": {"application/x-www-form-urlencoded": {"schema": {"type": "object"}}}},
            }
        },
        "/both": {
            "post": {
                "operationId": "sendBoth",
                "parameters": [{"name": "tag", "in": "query", "schema": {}}],
                "requestBody": {
                    "content": {"text/csv": {"schema": {"type": "string"}}, "application/json; charset=utf-8": {}}
                },
            },
        },
        "/merge": {"post": {"operationId": "merge", "requestBody": {"content": {"application/merge-patch+json": {}}}}},
        "/odd": {
            "post": {
                "operationId": "sendOdd",
                "parameters": [{"name": "body", "in": "query", "schema": {}}],
                "requestBody": {"content": {"application/merge-patch+json": {}}},
            }
        },
        "/named": {
            "post": {
                "operationId": "sendNamed",
                "parameters": [{"name": "body", "in": "query", "schema": {}}],
                "requestBody": {"content": {"application/json": {}}},
            }
        },
    },
}


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        ("find", {"id": ["a", "b"]}, "goes into the path"),
        ("find", {"id": None}, "id is None and goes into the path"),
        ("find", {"id": "1", "where": [{"a": 1}]}, "goes into the query"),
        ("find", {"id": "1", "where": {"a": 1}}, "goes into the query"),
        ("find", {"id": "1", "where": None}, "goes into the query"),
        ("find", {"id": "1", "where": [None]}, "goes into the query"),
        ("find", {"id": "1", "version": "2"}, "goes into the query and header"),
        ("find", {"id": "1", "session": "s"}, "goes into the cookie"),
        ("find", {"id": "1", "X-List": [1]}, "goes into the header"),
        ("send", {"body": {"a": 1}}, "goes into the application/x-www-form-urlencoded"),
        ("sendBoth", {"body": None}, "goes into the body"),
        ("sendNamed", {"body": "x"}, "goes into the query and body"),
        ("sendOdd", {"body": "x"}, r"goes into the query and application/merge-patch\+json"),
    ],
)
async def test_what_would_be_sent_otherwise_than_it_was_meant_is_refused(
    toolbox: Toolbox, tmp_path: Path, shop: Shop, name: str, arguments: Json, complaint: str
) -> None:
    api = await indexed(toolbox, tmp_path, json.dumps({**UNUSUAL, "servers": [{"url": shop.url}]}))
    with pytest.raises(InputError, match=f"{complaint}: that cannot be asked"):
        await api.call(name, arguments)
    assert shop.asked == []


async def test_what_is_beside_it_is_sent(toolbox: Toolbox, tmp_path: Path, shop: Shop) -> None:
    api = await indexed(toolbox, tmp_path, json.dumps({**UNUSUAL, "servers": [{"url": shop.url}]}))
    await api.call("find", {"id": 7, "page": 2, "where": [1.5, True, "x"]})
    await api.call("sendBoth", {"body": [None, {"a": False}], "tag": []})
    await api.call("merge", {"body": {"a": None}})
    await api.call("send", {})
    assert shop.asked[0].path == "/items/7?page=2&where=1.5&where=true&where=x"
    assert [(asked.headers.get("content-type"), asked.body) for asked in shop.asked[1:]] == [
        ("application/json", b'[null,{"a":false}]'),
        ("application/merge-patch+json", b'{"a":null}'),
        (None, b""),
    ]


@pytest.mark.parametrize(
    ("endpoints", "fault"),
    [
        ({"a": {"parameters": [], "method": "FETCH"}}, "a cannot be asked by FETCH"),
        ({"a": {"parameters": [], "method": ["GET"]}}, r"a cannot be asked by \['GET'\]"),
        ({"a": {"parameters": []}, "/a": {"parameters": [], "method": "get"}}, "/a cannot be asked by GET"),
    ],
)
def test_an_endpoint_that_would_be_lost_is_a_fault(swarm: Shell, project: Path, endpoints: Json, fault: str) -> None:
    (project / "shop.json").write_text(json.dumps({"b": {"parameters": []}, **endpoints}))
    done = swarm("sources", "index", "--kind", "api", "shop.json", "--json")
    assert re.search(fault, done.json["faults"][0]["reason"])
    endpoints["a"]["method"] = "post"
    (project / "shop.json").write_text(json.dumps(endpoints))
    done = swarm("sources", "index", "--kind", "api", "shop.json", "--json")
    assert (done.json["faults"], done.json["passages"]) == ([], len(endpoints))


def test_a_description_in_yaml_may_have_numbers_for_names() -> None:
    operation = b"{operationId: a, requestBody: {content: {7: {}}}}"
    (found,) = parse_api("api.yaml", b"openapi: 3.0.0\npaths:\n  /a:\n    post: " + operation)
    assert found.data["input_schema"] == {"type": "object", "properties": {"body": {"in": "7"}}}
    assert [each.title for each in parse_api("api.yaml", b"7: {parameters: []}")] == ["7"]


@pytest.mark.parametrize("name", ["Host", "Transfer-Encoding", "content-length", "AUTHORIZATION"])
async def test_no_argument_sets_a_header_that_is_ours_or_given(
    toolbox: Toolbox, tmp_path: Path, shop: Shop, name: str
) -> None:
    description = openapi(shop.url).replace("X-Trace", name)
    api = await indexed(toolbox, tmp_path, description)
    with pytest.raises(InputError, match="goes into the header: that cannot be asked"):
        await api.call("getItem", {"id": "1", name: "7"})
    assert shop.asked == []


@pytest.mark.parametrize(
    ("host", "is_it"),
    [("127.0.0.1:{port}", True), ("127.0.0.1:1", False), ("127.0.0.1:x", False), ("[::1", False), ("", False)],
)
async def test_a_host_may_be_named_with_its_port(
    toolbox: Toolbox, tmp_path: Path, shop: Shop, host: str, is_it: bool
) -> None:
    await indexed(toolbox, tmp_path, openapi(shop.url))
    api = ApiToolbox(toolbox, {"authorization": "Bearer key"}, host.format(port=shop.url.rpartition(":")[2]))
    with nullcontext() if is_it else pytest.raises(InputError, match=r"getItem is at 127\.0\.0\.1:"):
        await api.call("getItem", {"id": "1"})
    assert len(shop.asked) == is_it


@pytest.mark.parametrize(
    ("url", "host", "complaint"),
    [
        ("http://shop.invalid", "shop.invalid", "they go over https"),
        ("http://127.evil.invalid", "127.evil.invalid", "they go over https"),
        ("https://shop.invalid:8443", "shop.invalid:443", "name this host"),
    ],
)
async def test_a_key_does_not_travel_in_the_clear_nor_to_another_port(
    toolbox: Toolbox, tmp_path: Path, url: str, host: str, complaint: str
) -> None:
    await indexed(toolbox, tmp_path, openapi(url))
    with pytest.raises(InputError, match=complaint):
        await ApiToolbox(toolbox, {"authorization": "Bearer key"}, host).call("getItem", {"id": "1"})


async def test_the_nearest_address_is_asked(toolbox: Toolbox, tmp_path: Path, shop: Shop) -> None:
    description = json.loads(openapi("http://127.0.0.1:1"))
    description["paths"]["/items"]["servers"] = [{"url": f"{shop.url}/item"}]
    description["paths"]["/slow"]["servers"] = [{"url": "http://127.0.0.1:1"}]
    description["paths"]["/slow"]["get"]["servers"] = [{"url": f"{shop.url}/operation"}]
    api = await indexed(toolbox, tmp_path, json.dumps(description))
    shop.gate.set()
    await api.call("addItem", {"body": {"name": "lamp"}})
    await api.call("GET /slow", {})
    assert [asked.path for asked in shop.asked] == ["/item/items", "/operation/slow"]
    with pytest.raises(SourceUnavailable):
        await api.call("getItem", {"id": "1"})


@pytest.mark.parametrize(
    "path", ["@evil.example/x", "//evil.example/x", "https://evil.example/x", "/a/../../x", "/a?b", "\\x"]
)
def test_a_path_leads_to_no_other_host(path: str) -> None:
    data: Json = {"method": "GET", "path": path, "servers": ["https://api.example/v1"]}
    operation = Passage(kind="api", group="api.json", position=0, title="x", data=data)
    try:
        request = request_of(operation, {}, {})
    except InputError:
        return
    assert (request.url.host, request.url.scheme) == ("api.example", "https")
    assert request.url.path.startswith("/v1/")


def test_a_schema_of_a_description_takes_no_time() -> None:
    schema = {
        "type": "object",
        "properties": {"q": {"in": "query", "pattern": "^(a+)+$"}, "pattern": {"in": "query", "type": "string"}},
    }
    data: Json = {"method": "GET", "path": "/", "servers": ["https://api.example"], "input_schema": schema}
    operation = Passage(kind="api", group="api.json", position=0, title="x", data=data)
    assert request_of(operation, {"q": "a" * 60 + "!"}, {}).url.query.startswith(b"q=aaa")
    with pytest.raises(InputError, match="pattern: 3 is not of type 'string'"):
        request_of(operation, {"pattern": 3}, {})
    wrong = operation.model_copy(update={"data": data | {"input_schema": {"type": "nothing"}}})
    with pytest.raises(InputError, match="holds no JSON schema"):
        request_of(wrong, {}, {})


def fetching(url: str) -> dict[str, Json]:
    """Return schemas that name something to be fetched, each in a way of its own."""
    draft = {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": url}
    older = {"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveRef": url}
    return {
        "$ref": {"$ref": url},
        "$dynamicRef": {"$dynamicRef": url},
        "$recursiveRef": older,
        "$schema": {"allOf": [draft]},
        "$schema of nobody": {"$schema": url, "$id": url},
        "unevaluatedProperties": {"unevaluatedProperties": False, "$dynamicRef": url},
        "unevaluatedItems": {"unevaluatedItems": False, "$dynamicRef": url},
        "below": {"unevaluatedProperties": False, "anyOf": [{"$dynamicRef": url}, {"unevaluatedProperties": draft}]},
        "of names": {"additionalProperties": False, "patternProperties": {"^(a+)+$": draft}, "properties": {"y": {}}},
    }


@pytest.mark.parametrize("keyword", fetching(""))
async def test_checking_arguments_fetches_nothing(toolbox: Toolbox, tmp_path: Path, shop: Shop, keyword: str) -> None:
    description = json.loads(openapi(shop.url))
    body = description["paths"]["/items"]["post"]["requestBody"]["content"]["application/json"]
    body["schema"] = fetching(f"{shop.url}/schema")[keyword]
    api = await indexed(toolbox, tmp_path, json.dumps(description))
    values: tuple[Any, ...] = ({"y": 1},) if keyword == "of names" else ({"x": 1, "y": 1}, [1])
    slow: Json = {"a" * 60 + "!": 1}
    for value in values:
        await api.call("addItem", {"body": value})
    with pytest.raises(InputError, match="unexpected") if keyword == "of names" else nullcontext():
        await api.call("addItem", {"body": slow})
    assert {asked.path for asked in shop.asked} == {"/items"}


async def test_an_answer_is_bounded_and_a_redirection_is_one(
    toolbox: Toolbox, tmp_path: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = await indexed(toolbox, tmp_path, openapi(shop.url))
    shop.replies["/items/1"] = Reply(302, b"", {"location": "http://127.0.0.1:1/elsewhere"})
    assert (await api.call("getItem", {"id": "1"})).status == 302
    shop.replies["/items/2"] = Reply(200, b"word " * 400_000, {})
    long = await api.call("getItem", {"id": "2"})
    assert len(long.text) < 4 * toolbox.settings.output.max_tokens + 100
    assert "characters left out" in long.text
    assert long.text.endswith("[cut off after 1,000,000 bytes]")
    shop.replies["/items/3"] = Reply(500, b"\0\1\2", {})
    broken = await api.call("getItem", {"id": "3"})
    assert (broken.status, broken.text) == (500, "(3 bytes that are no text)")
    monkeypatch.setattr(api_calls, "TIMEOUT_S", 0.05)
    with pytest.raises(SourceUnavailable, match="gave no answer"):
        await api.call("GET /slow", {})


def test_endpoints_in_rapidapis_shape_are_indexed_found_and_called(
    swarm: Shell, project: Path, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "shop.json").write_text(json.dumps({"base_url": f"{shop.url}/api", "endpoints": ENDPOINTS}))
    (project / "bare.json").write_text(json.dumps(ENDPOINTS))
    assert swarm("sources", "index", "shop.json", "--json").json["kind"] == "api"
    (hit, *_) = swarm("sources", "search", "what can I buy for my budget", "--json").json["hits"]
    assert (hit["title"], hit["kind"], hit["use"]["method"]) == ("search/products", "api", "GET")
    assert hit["use"]["input_schema"]["properties"]["in_stock"]["type"] == "boolean"
    call = ("sources", "call", "search/products", "--header", "X-RapidAPI-Key=SHOP_KEY", "--arguments")
    assert swarm(*call, '{"q": "lamp"}').err.endswith("X-RapidAPI-Key: the variable behind = is not set\n")
    monkeypatch.setenv("SHOP_KEY", "k-1")
    for elsewhere in ((), ("--host", "shop.example")):
        refused = swarm(*call, '{"q": "lamp"}', *elsewhere)
        assert (refused.code, "search/products is at 127.0.0.1" in refused.err) == (2, True)
    assert shop.asked == []
    call = (*call[:3], "--host", "127.0.0.1", *call[3:])
    called = swarm(*call, '{"q": "lamp", "max_price": 9.5, "in_stock": true}', "--json")
    assert json.loads(called.json["text"])["path"] == "/api/search/products?q=lamp&max_price=9.5&in_stock=true"
    assert shop.asked[0].headers["x-rapidapi-key"] == "k-1"
    assert "k-1" not in called.out
    one = swarm("sources", "call", "product/{sku}", "--arguments", '{"sku": "a/b"}', "--json").json
    assert one["url"] == f"{shop.url}/api/product/a%2Fb"
    assert swarm(*call, '{"max_price": 3}').code == 2
    assert swarm(*call, "[]").code == 2
    (project / "again").mkdir()
    (project / "again" / "shop.json").write_bytes((project / "shop.json").read_bytes())
    swarm("sources", "index", "again")
    assert swarm(*call, '{"q": "lamp"}').code == 0, "the same description twice is one"
    swarm("sources", "index", "bare.json")
    assert "several operations are called" in swarm(*call, '{"q": "lamp"}').err
    for location in ("shop.json", "again"):
        swarm("sources", "list", "--remove", location)
    assert "has no address that can be asked" in swarm(*call, '{"q": "lamp"}').err


def test_what_looked_like_an_api_and_was_read_as_a_document_is_named(swarm: Shell, project: Path) -> None:
    half = {**ENDPOINTS, "product/details": {"description": "without parameters"}}
    (project / "half.json").write_text(json.dumps(half))
    (project / "paths.yaml").write_text("paths:\n  /items:\n    get: {summary: Items}\n")
    (project / "notes.json").write_text('{"title": "Notes"}')
    for name, is_named in (("half.json", True), ("paths.yaml", True), ("notes.json", False)):
        done = swarm("sources", "index", name, "--json").json
        assert done["kind"] == "document"
        assert any(f"{name} looks like a description of an API" in notice for notice in done["notices"]) == is_named
