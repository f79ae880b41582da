"""A table is mapped, checked, and refused with advice when it is damaged."""

import subprocess
import sys
from pathlib import Path

import pytest
from tables import write_table

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.embedding.static import MAGIC, SHIPPED_TABLE, StaticEmbedder, Table, verify

MAX_SHIPPED_BYTES = 8_000_000


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "small.bin"
    write_table(path, weights=[10, 20, 30], rows=bytes([129, 127, 130, 128, 128, 140]), vocabulary=["fix", "test"])
    return path


def test_what_is_written_is_read_back(table: Path) -> None:
    opened = Table(table)
    assert (opened.dimensions, opened.rows, len(opened.vocabulary)) == (2, 3, 2)
    assert opened.vocabulary == {"fix": 0, "test": 1}
    assert list(opened.weights) == [10, 20, 30]
    assert opened.values.tolist() == [[129, 127], [130, 128], [128, 140]]
    verify(table)


@pytest.mark.parametrize("kept", [0, 3, 19, 22, 30])
def test_a_table_cut_short_is_refused_with_its_path(table: Path, kept: int) -> None:
    table.write_bytes(table.read_bytes()[:kept])
    with pytest.raises(ConfigError, match=r"small\.bin.*reinstall"):
        Table(table)


@pytest.mark.parametrize(
    ("part", "instead", "reason"),
    [
        (MAGIC, b"SQLite f", "does not begin"),
        (b"fix", b"\xff\xff\xff", "UTF-8"),
        (b"fix", b"\nx\n", "4 words for 3 rows"),
        (b"fix", b"fox", "SHA-256"),
    ],
)
def test_a_table_that_is_damaged_is_refused(table: Path, part: bytes, instead: bytes, reason: str) -> None:
    table.write_bytes(table.read_bytes().replace(part, instead))

    def read() -> None:
        assert Table(table).vocabulary
        verify(table)

    with pytest.raises(ConfigError, match=reason):
        read()


def test_a_missing_table_and_a_missing_checksum_are_named(table: Path) -> None:
    table.with_suffix(".sha256").unlink()
    with pytest.raises(ConfigError, match=r"small\.sha256"):
        verify(table)
    table.unlink()
    with pytest.raises(ConfigError, match=r"small\.bin.*reinstall"):
        Table(table)


def test_the_shipped_table_is_whole_and_small_and_licensed() -> None:
    StaticEmbedder().verify()
    assert SHIPPED_TABLE.stat().st_size <= MAX_SHIPPED_BYTES
    assert "Apache License" in (SHIPPED_TABLE.parent / "LICENSE-all-MiniLM-L6-v2").read_text("utf-8")


def test_a_prompt_is_embedded_without_importing_heavy_libraries() -> None:
    script = (
        "import sys\n"
        "from swarm_memory.server.embedding.static import StaticEmbedder\n"
        "StaticEmbedder().embed('fix the failing test')\n"
        "print([m for m in ('mcp', 'openai', 'pydantic', 'anyio') if m in sys.modules])\n"
    )
    source = Path(__file__).parents[2] / "src"
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(source)}
    )
    assert run.stdout.strip() == "[]"
