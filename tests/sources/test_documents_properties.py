"""What holds for every document: no word is lost, nothing is too long, and no bytes break the reader."""

import contextlib
import re
import tempfile
from itertools import pairwise
from pathlib import Path
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from swarm_memory.schema.errors import InputError
from swarm_memory.server.sources.documents import document_passages, page, read_documents
from swarm_memory.server.sources.files import decode, is_binary
from swarm_memory.tools.sources import chunks as cutting
from swarm_memory.tools.sources.chunks import Chunk, chunks, markdown_blocks, word_count

MARKS = [
    "", "# One", "## Two", "Three", "=====", "-----", "---", "```", "~~~~", "| a | b |", "|---|---|", "- item",
    "1. item",
]  # fmt: skip
LINES = st.one_of(
    st.text(alphabet="ab .!?\t", max_size=80),
    st.sampled_from(MARKS),
    st.text(max_size=30).map(lambda text: re.sub(r"[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", " ", text)),
    st.just("long " * 60),
    st.just("漢字かな" * 40),
    st.just("x" * 400),
)
MARKDOWN = st.lists(LINES, max_size=60).map("\n".join)
MAX_WORDS, OVERLAP_WORDS, MIN_WORDS = 40, 8, 10


def cut(text: str) -> list[Chunk]:
    blocks = markdown_blocks(text)
    with mock.patch.multiple(cutting, MAX_WORDS=MAX_WORDS, OVERLAP_WORDS=OVERLAP_WORDS, MIN_WORDS=MIN_WORDS):
        return chunks(text, blocks)


@given(MARKDOWN)
def test_every_word_is_in_some_chunk_in_order_and_no_chunk_is_longer_or_repeats_more_than_it_may(text: str) -> None:
    found, at = cut(text), 0
    for chunk in found:
        assert not text[at : chunk.start].strip()
        assert chunk.start < chunk.end
        assert chunk.end > at
        assert word_count(text, chunk.start, chunk.end) <= MAX_WORDS
        at = chunk.end
    assert not text[at:].strip()
    for first, second in pairwise(found):
        assert second.start > first.start
        assert second.start >= first.end or word_count(text, second.start, first.end) <= OVERLAP_WORDS


@given(st.binary(max_size=400))
def test_any_bytes_become_clean_text(data: bytes) -> None:
    text, _ = decode(data)
    text.encode("utf-8")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text)
    is_binary(data)


@given(
    st.text(max_size=300).map(
        lambda text: text.replace("a", "<td>").replace("b", "<h2>").replace("c", "<pre>").replace("d", "</")
    )
)
def test_any_page_becomes_passages(source: str) -> None:
    found = page(source)
    for position, passage in enumerate(document_passages("a.html", found.title, found.text, "utf-8", has_lines=False)):
        assert passage.position == position
        assert passage.content.strip()


@settings(max_examples=50)
@given(st.binary(max_size=300), st.sampled_from(["a.md", "a.html", "a.txt", "README"]))
def test_arbitrary_bytes_raise_nothing_but_the_fault(data: bytes, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_bytes(data)
        for group in read_documents(Path(folder)):
            with contextlib.suppress(InputError):
                assert all(passage.path == name for passage in group.parse())
