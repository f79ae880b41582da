"""Writes a table of the built-in embedder, for `scripts/embedder/pack.py` and tests."""

import hashlib
import struct
from collections.abc import Sequence
from pathlib import Path

from swarm_memory.server.embedding.static import HEADER, MAGIC


def write_table(path: Path, weights: Sequence[int], rows: bytes, vocabulary: Sequence[str]) -> None:
    """Write a table and, next to it, its SHA-256 in the form that `sha256sum -c` reads.

    ``weights`` are 0…`MAX_WEIGHT`, one per row; ``rows`` are the biased bytes, row after row.
    """
    words = "\n".join(vocabulary).encode("utf-8")
    header = HEADER.pack(MAGIC, len(rows) // len(weights), len(weights), len(words))
    content = header + struct.pack(f"<{len(weights)}H", *weights) + rows + words
    path.write_bytes(content)
    path.with_suffix(".sha256").write_text(f"{hashlib.sha256(content).hexdigest()}  {path.name}\n", "ascii")
