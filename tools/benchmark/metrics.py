"""How good one ranked answer is, and how fast answers come. Pure functions of ids and numbers."""

import math
from collections.abc import Collection, Mapping, Sequence

DEPTH = 10
"""MRR and nDCG look at the first ten."""


def measures(found: Sequence[str], gold: Collection[str], ks: Sequence[int]) -> dict[str, float]:
    """Return every measure of one answer, from 0 to 1; `gold` must not be empty.

    recall_any@K: whether a relevant item is among the first K. recall@K: the share of the relevant ones that are.
    mrr@10: 1 / rank of the first one. ndcg@10: Järvelin, Kekäläinen (2002) with gains of 1 and log2(rank + 1).
    """
    ranks = [rank for rank, each in enumerate(found, start=1) if each in gold]
    values: dict[str, float] = {}
    for k in ks:
        hits = sum(rank <= k for rank in ranks)
        values[f"recall_any@{k}"] = float(hits > 0)
        values[f"recall@{k}"] = hits / len(gold)
    near = [rank for rank in ranks if rank <= DEPTH]
    values[f"mrr@{DEPTH}"] = 1 / near[0] if near else 0.0
    ideal = math.fsum(1 / math.log2(rank + 1) for rank in range(1, min(DEPTH, len(gold)) + 1))
    values[f"ndcg@{DEPTH}"] = math.fsum(1 / math.log2(rank + 1) for rank in near) / ideal
    return values


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` of the values do not exceed (nearest rank); `values` must not be empty."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def columns(rows: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, ...]]:
    """Return the values of each measure over all rows, which have the same measures."""
    return {name: tuple(row[name] for row in rows) for name in (rows[0] if rows else ())}
