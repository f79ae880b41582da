"""`cap`: what is short passes to the byte, of what is long head and tail stay, and how much is missing is said."""

import io
import json
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_memory.server.cli.main import main
from swarm_memory.server.hosts.claude_code.outputs import capped_output
from swarm_memory.server.missed import missed
from swarm_memory.tools.text.capping import cap, cap_stream, estimate
from swarm_memory.tools.text.tokens import count_tokens

Pipe = Callable[..., bytes]


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Pipe:
    """Give `swarm-memory cap` bytes on standard input; returns what it wrote."""

    def run(given: bytes, *options: str) -> bytes:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["swarm-memory", "cap", *options])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(given))))  # pyright: ignore[reportArgumentType]
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
        return capfdbinary.readouterr().out

    return run


def test_what_is_short_passes_to_the_byte_also_what_is_no_text(pipe: Pipe) -> None:
    for sent in (b"", b"\n", b"no line end", "für\r\n日本語\0".encode(), bytes(range(256)) * 3, b"\xe2\x82"):
        assert pipe(sent) == sent


def test_of_what_is_long_head_and_tail_stay_in_whole_lines(pipe: Pipe) -> None:
    lines = [f"line {number} of the build" for number in range(20_000)]
    out = pipe("\n".join(lines).encode()).decode().split("\n")
    (note,) = [line for line in out if line.startswith("[…")]
    at = out.index(note)
    assert out[:at] == lines[:at]
    assert out[at + 1 :] == lines[-(len(out) - at - 1) :]
    left_out = lines[at : len(lines) - (len(out) - at - 1)]
    told = int(note.split()[1].replace(",", ""))
    assert told == pytest.approx(count_tokens("\n".join(left_out)), rel=0.01)
    assert f"({len(left_out):,} lines)" in note
    assert 11_000 < count_tokens("\n".join(out)) <= 12_000


PARTS = ["a", "word ", "\n", "1", "日", "👩\u200d🚀", "e\u0301", "\udc80", " ", "\r\n", "{}"]


@given(st.lists(st.sampled_from(PARTS), max_size=400).map("".join), st.integers(100, 200), st.integers(1, 50))
def test_no_text_becomes_longer_than_allowed_or_loses_half_a_character(text: str, most: int, size: int) -> None:
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    out = "".join(cap_stream(parts, most))
    if estimate(text) <= most:
        assert out == text
        return
    assert count_tokens(out) <= most
    head, _, rest = out.partition("[… ")
    tail = rest.partition(" …]\n")[2]
    assert text.startswith((head, head[:-1]))
    assert text.endswith(tail)
    assert not head.endswith("\u200d")
    assert not tail.startswith(("\u0301", "\u200d"))


def test_of_a_stream_of_any_size_no_more_is_held_than_is_printed() -> None:
    def endless() -> Iterator[str]:
        for number in range(100):
            yield f"{number} {' ' * 20_000}\n"  # hardly a token, and 2 MB

    tracemalloc.start()
    out = "".join(cap_stream(endless(), 500))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(out) < 20_000
    assert out.startswith("0 ")
    assert out.endswith("\n")
    assert peak < 500_000


BIG = "".join(f"row {number}: value\n" for number in range(9000))


@pytest.mark.parametrize(
    ("response", "path"),
    [
        (BIG, ()),
        ([{"type": "text", "text": BIG}, {"type": "image", "data": "A" * 90_000}], (0, "text")),
        ({"stdout": BIG, "stderr": "warning", "interrupted": False, "isImage": False}, ("stdout",)),
        ({"bytes": 7, "code": 200, "result": BIG, "url": "https://example.org"}, ("result",)),
    ],
)
def test_the_hook_answers_with_the_same_shape_and_a_shorter_text(
    pipe: Pipe, response: Any, path: tuple[Any, ...]
) -> None:
    event = {"hook_event_name": "PostToolUse", "tool_name": "x", "tool_response": response}
    told = json.loads(pipe(json.dumps(event).encode(), "--hook"))["hookSpecificOutput"]
    assert told["hookEventName"] == "PostToolUse"
    changed, kept = told["updatedToolOutput"], response
    for key in path[:-1]:
        changed, kept = changed[key], kept[key]
    if path:
        assert {**changed, path[-1]: None} == {**kept, path[-1]: None}
        changed = changed[path[-1]]
    assert changed == cap(BIG)
    assert "left out by swarm-memory cap" in changed


def test_short_texts_stay_whole_beside_a_long_one() -> None:
    blocks = [{"type": "text", "text": text} for text in ("short", BIG, BIG)]
    told = capped_output({"tool_response": blocks}, 12_000)["hookSpecificOutput"]["updatedToolOutput"]
    assert told[0] == blocks[0]
    assert 10_000 < sum(count_tokens(block["text"]) for block in told) <= 12_000


@pytest.mark.parametrize(
    "event",
    [
        {"tool_name": "Bash", "tool_response": {"stdout": "short", "stderr": ""}},
        {"tool_name": "Read", "tool_response": {"type": "text", "file": {"content": BIG}}},
        {"tool_name": "Bash", "tool_response": {"stdout": BIG, "persistedOutputPath": "/x"}},
        {"tool_name": "Bash", "tool_response": {"stdout": BIG, "isImage": True}},
        {"tool_name": "x"},
    ],
)
def test_the_hook_is_silent_where_nothing_is_to_be_shortened(pipe: Pipe, event: dict[str, Any]) -> None:
    assert pipe(json.dumps(event).encode(), "--hook") == b""


def test_an_event_that_cannot_be_read_is_noted_and_the_host_feels_nothing(pipe: Pipe, tmp_path: Path) -> None:
    assert pipe(b"[1", "--hook") == b""
    assert pipe(b"[1]", "--hook") == b""
    assert [each.event for each in missed(tmp_path)] == ["PostToolUse", "PostToolUse"]


def test_switched_off_it_leaves_every_output_as_it_is(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_MEMORY_DISABLED", "1")
    assert pipe(json.dumps({"tool_response": BIG}).encode(), "--hook") == b""
