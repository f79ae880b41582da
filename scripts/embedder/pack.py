"""Packs trained vectors into the table that ships: 8-bit rows, whole-number weights, buckets for unknown words."""

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

from swarm_memory.server.embedding.table import BIAS, MAX_WEIGHT, write_table

BUCKETS = 256
BUCKET_SEED = 7


def with_buckets(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Append a random direction of the median length for each bucket of unknown words."""
    directions = np.random.default_rng(BUCKET_SEED).standard_normal((BUCKETS, vectors.shape[1]))
    directions *= np.median(np.linalg.norm(vectors, axis=1)) / np.linalg.norm(directions, axis=1, keepdims=True)
    return np.concatenate([vectors, directions.astype(np.float32)])


def quantize(vectors: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return each row's weight, 0…`MAX_WEIGHT`, and its values as biased bytes; their product keeps proportions."""
    peaks = np.abs(vectors).max(axis=1)
    weights = np.maximum(1, np.round(peaks / peaks.max() * MAX_WEIGHT)).astype(np.int64)
    values = np.round(vectors / weights[:, None] * (127 * MAX_WEIGHT / peaks.max()))
    return weights, (np.clip(values, -127, 127) + BIAS).astype(np.uint8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vectors", type=Path, help="the .npz of distill.py or train.py")
    parser.add_argument("table", type=Path)
    args = parser.parse_args()
    trained = np.load(args.vectors)
    weights, rows = quantize(with_buckets(trained["vectors"]))
    write_table(args.table, weights.tolist(), rows.tobytes(), trained["words"].tolist())
    print(f"{args.table}: {args.table.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
