"""Whatever arguments a tool gets, the call is answered, and no argument reaches an interpreter."""

import asyncio
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.types import Tool
from patience import FULL

from tests.abuse.banks import BENCHMARK, CALLS, Abused, Tally, abused, look, some, teach
from tests.abuse.tool_arguments import sampled, string_fields, valid

pytestmark = [pytest.mark.attack]

SEED = 20261121
NASTY = (
    *("a\0b", "\0" * 500, "\u202eevil\u2066", "\u200b\u200d\ufeff", "\x1b]0;x\x07\x1b[2J", "\uffff\ufffe\ufdd0"),
    *("\U000e0041\U000e007f", "\U0010ffff", "\r\n\r", "\u2028\u2029", "\x85\x1c"),
    *("x" * 15_000, "e" + "\u0301" * 50_000),
)
MARKS = "e" + "\u0301" * (1 << 19)
"""One letter under a megabyte of combining marks."""

INJECTIONS = (
    "'; DROP TABLE patterns; --",
    '"; DELETE FROM patterns; --',
    "x' UNION SELECT pattern_data FROM patterns --",
    "'); ATTACH DATABASE 'owned.db' AS o; --",
    "1; PRAGMA writable_schema=ON; UPDATE sqlite_master SET sql='x'",
    "%",
    "_",
    "' || (SELECT group_concat(pattern_data) FROM patterns) || '",
    "load_extension('owned')",
    "../../../../etc/passwd",
    "/etc/passwd\0.jsonl",
    "~/.ssh/id_rsa.json",
    "file:///etc/passwd",
    "\\\\host\\share\\x.jsonl",
    "$(touch owned)",
    "`touch owned`; touch owned | touch owned && touch owned",
    'NEAR("a" "b") AND title:x OR NOT (',
    "a* ^b {title content}: c",
    '"unbalanced',
    '- + : ( ) " * ^',
)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The folder of a project."""
    folder = tmp_path / "shop"
    folder.mkdir()
    return folder


def hold(server: Abused) -> None:
    """Assert that every call was answered, and none with an internal error."""
    assert server.tally.internal == []
    assert server.tally.unanswered == []


NUMBERS = (0, -1, 1, 51, 4097, 5000, 2**31, 2**63, 10**40)


def integers(server: Abused) -> list[tuple[Tool, str]]:
    """Return every argument that is a number: k, offset, limit."""
    fields = [(tool, name, field) for tool in server.tools for name, field in tool.input_schema["properties"].items()]
    kinds = ("integer", "number")
    return [
        (tool, name)
        for tool, name, field in fields
        if any(option.get("type") in kinds for option in field.get("anyOf", [field]))
    ]


async def test_arguments_at_and_past_every_limit_give_no_internal_error(shop: Path) -> None:
    chance = random.Random(SEED)
    async with abused(shop) as server:
        for tool, name in integers(server):
            for number in NUMBERS:
                await server.call(tool.name, valid(tool.input_schema, chance, **{name: number}))
        benchmarks = 0
        while server.tally.calls < CALLS:
            tool = chance.choice(server.tools)
            benchmarks += tool.name == BENCHMARK
            if tool.name != BENCHMARK or benchmarks <= 2:
                await server.call(tool.name, sampled(tool.input_schema, chance))
    hold(server)


async def test_every_text_in_every_argument_is_answered(shop: Path) -> None:
    chance = random.Random(SEED)
    async with abused(shop) as server:
        places = [(tool, name) for tool in server.tools for name in string_fields(tool.input_schema)]
        for tool, name, text in some([(tool, name, text) for text in NASTY for tool, name in places], chance):
            await server.call(tool.name, valid(tool.input_schema, chance, **{name: text}))
        for tool, name in places if FULL else chance.sample(places, 3):
            await server.call(tool.name, valid(tool.input_schema, chance, **{name: MARKS}))
        await _any_text(server, places_of=[(tool.name, name) for tool, name in places])
    hold(server)
    assert look(shop)["check"] == "ok"


async def _any_text(server: Abused, places_of: list[tuple[str, str]]) -> None:
    """Let Hypothesis find texts; its tests are synchronous, so the calls are passed back to the event loop."""
    loop = asyncio.get_running_loop()
    schemas = {tool.name: tool.input_schema for tool in server.tools}

    @settings(max_examples=CALLS // 3, database=None, derandomize=True)
    @given(st.text(st.characters(exclude_categories=()), max_size=60), st.sampled_from(places_of), st.randoms())
    def call(text: str, place: tuple[str, str], chance: random.Random) -> None:
        tool, name = place
        sent = text.encode("utf-8", "replace").decode()  # a client's JSON is UTF-8; the rest has tests of its own
        arguments = valid(schemas[tool], chance, **{name: sent})
        asyncio.run_coroutine_threadsafe(server.call(tool, arguments), loop).result(60)

    await asyncio.to_thread(call)


TYPED = (
    *("C++", "don't", "foo(bar)", "a AND", "OR b", "NOT c", "NEAR(a b)", '"open', "key:value", "-x", "^begin", "end*"),
    *("{title}: x", "50% off?", "path/to/file.py:12", "a - b + c"),
)


async def test_no_query_is_a_syntax_error_of_the_search(shop: Path) -> None:
    """The listed queries are those that FTS5 refuses or misinterprets."""
    signs = "\"*^:()-+{}[]~&|!\\/.,;'`"
    words = ["AND", "OR", "NOT", "NEAR", "NEAR(", "title", "content:", "migrate", *signs, "\u00e9", "表", "\0"]
    chance = random.Random(SEED)
    async with abused(shop) as server:
        await teach(server, "orders")
        server.tally = Tally()
        blank = 0
        sampled_ones = (
            chance.choice(("", " ")).join(chance.choices(words, k=chance.randint(1, 8))) for _ in range(CALLS)
        )
        for query in (*TYPED, *sampled_ones):
            answer = await server.call("retrieve_memories", {"query": query})
            blank += "query is empty" in answer
    assert blank == server.tally.refused
    hold(server)


async def test_no_string_reaches_an_interpreter(shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chance = random.Random(SEED)
    async with abused(shop, tenant="canary") as others:
        await teach(others, "quetzal")
    async with abused(shop) as server:
        await teach(server, "orders")
        before = look(shop)
        places = [(tool, name) for tool in server.tools for name in string_fields(tool.input_schema)]
        for tool, name, text in some([(tool, name, text) for text in INJECTIONS for tool, name in places], chance):
            answer = await server.call(tool.name, valid(tool.input_schema, chance, **{name: text}))
            assert "quetzal" not in answer
        hold(server)
    after = look(shop)
    assert after["objects"] == before["objects"]
    assert after["check"] == "ok"
    kept = {row[0]: row for row in after["patterns"]}
    assert [row for row in before["patterns"] if kept.get(row[0]) != row] == []
    made = list(tmp_path.rglob("owned*"))  # noqa: ASYNC240 - nothing else runs
    assert made == [], "only a string that is executed makes such a file"


async def test_reading_tools_change_no_row_but_their_log(shop: Path) -> None:
    """The log holds which memories were retrieved, and which requests went to a model."""
    async with abused(shop) as server:
        await teach(server, "orders")
        before = look(shop)["rows"]
        chance = random.Random(SEED)
        reading = [tool for tool in server.tools if tool.annotations and tool.annotations.read_only_hint]
        for tool in reading:
            for name in string_fields(tool.input_schema):
                for text in INJECTIONS:
                    await server.call(tool.name, valid(tool.input_schema, chance, **{name: text}))
    after = look(shop)["rows"]
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed <= {"events", "retrievals", "performance_metrics", "scopes"}
