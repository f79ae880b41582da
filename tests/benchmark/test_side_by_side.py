"""Our server beside another one: both really run, and what is read of them is theirs."""

import importlib.util
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ECHO = Path(__file__).with_name("echo_memory.py")
OTHER = {
    "name": "echo",
    "command": [sys.executable, str(ECHO)],
    "store": {"tool": "remember", "arguments": {"text": "{content}"}, "results": "stored.id"},
    "search": {"tool": "recall", "arguments": {"question": "{query}", "limit": "{k}"}, "results": "hits", "id": "id"},
}
PAIRS = [
    ("which tool resolves the lock file", "The lock file is resolved by the command uv lock, never by hand."),
    ("why does the migration time out", "The migration times out since the first run builds the index."),
    ("where are the fixtures of the parser", "Fixtures of the parser lie in tests/fixtures/grammar."),
]


@pytest.fixture
def benchmark_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("side_by_side", ROOT / "benchmarks" / "side_by_side.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "side_by_side", module)
    spec.loader.exec_module(module)
    return module


async def test_two_servers_take_turns_and_each_has_all_figures(benchmark_module: Any, tmp_path: Path) -> None:
    described = tmp_path / "echo.json"
    described.write_text(json.dumps(OTHER), "utf-8")
    other = benchmark_module.read_config(described)
    configs = [benchmark_module.OURS, other]
    ours, echo = await benchmark_module.compare(configs, PAIRS, rounds=2, starts=1, settle_s=0)
    for side in (ours, echo):
        assert side.figures["any@5, %"] == 100
        assert side.figures["start to tools/list, ms"] > 0
        assert (len(side.store), len(side.search)) == (3, 3)
        assert side.figures["schema, tokens"] > 50
        if sys.platform == "linux":
            assert 5 < side.figures["idle memory, MB"] < 1000
    assert ours.figures["bytes an item"] > 0
    assert echo.figures["bytes an item"] == 0
    assert ours.figures["schema, tokens"] > echo.figures["schema, tokens"]


def test_a_server_may_be_described_in_toml(benchmark_module: Any, tmp_path: Path) -> None:
    described = tmp_path / "echo.toml"
    described.write_text(
        'name = "echo"\ncommand = ["echo-memory"]\n'
        '[store]\ntool = "remember"\narguments = {text = "{content}"}\n'
        '[search]\ntool = "recall"\narguments = {question = "{query}"}\nresults = "hits"\n',
        "utf-8",
    )
    assert benchmark_module.read_config(described).search.tool == "recall"


def test_what_is_asked_is_in_no_item(benchmark_module: Any) -> None:
    pairs = list(benchmark_module.paragraphs(Path(random.__file__)))
    assert len(pairs) > 5
    assert all(question not in text for text, question in pairs)
