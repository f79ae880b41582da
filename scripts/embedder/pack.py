"""Packs trained vectors into the table that ships: 8-bit rows, whole-number weights, buckets for unknown words."""

import argparse
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.append(str(Path(__file__).parents[2] / "tests" / "shared"))

from tables import write_table

from swarm_memory.server.embedding.static import BIAS, MAX_WEIGHT

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
    weights = np.maximum(1, (peaks / peaks.max() * MAX_WEIGHT).round()).astype(np.int64)
    values = (vectors / weights[:, None] * (127 * MAX_WEIGHT / peaks.max())).round()
    return weights, (np.clip(values, -127, 127) + BIAS).astype(np.uint8)


def averaged(paths: list[Path], shares: list[float]) -> tuple[list[str], npt.NDArray[np.float32]]:
    """Return the words and the weighted mean of tables trained one from another, each scaled to a mean length of 1.

    Tables that share their beginning can be averaged row by row (Wortsman et al. 2022, "Model soups").
    """
    tables = [np.load(path) for path in paths]
    vectors = [table["vectors"] / np.linalg.norm(table["vectors"], axis=1).mean() for table in tables]
    mean = sum(share * each for share, each in zip(shares, vectors, strict=True))
    return tables[0]["words"].tolist(), np.asarray(mean, np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vectors", type=Path, nargs="+", help="one or more .npz of distill.py or train.py")
    parser.add_argument("--shares", type=float, nargs="+", default=[1.0], help="share of each in the mean")
    parser.add_argument("--table", type=Path, required=True)
    args = parser.parse_args()
    words, vectors = averaged(args.vectors, args.shares)
    weights, rows = quantize(with_buckets(vectors))
    write_table(args.table, weights.tolist(), rows.tobytes(), words)
    print(f"{args.table}: {args.table.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
