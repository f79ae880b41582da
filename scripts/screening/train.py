"""Train the classifier of suspect texts, and say how it does on texts that it has not seen.

    python scripts/screening/train.py            # cross-validation by frame
    python scripts/screening/train.py --shapes   # and with one whole shape left out each time
    python scripts/screening/train.py --write    # and the weights that ship

Logistic regression in its dual form (Newton's method); one frame weighs as much as another, attacks as much as sound
texts.
"""

import argparse
import json
import struct
import sys
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from corpus import ITEM, Example, examples, fold_of

from swarm_memory.tools.screening import by_rules, readings
from swarm_memory.tools.screening_classifier import (
    CHARACTER_BUCKETS,
    WEIGHTS,
    WORD_BUCKETS,
    concept_columns,
    features_of,
    units,
)

SEED, PER_FRAME = 1, 3
PENALTY, STEPS = 0.05, 4
LONG = 130
SOUND_HELD_BACK = 0.01
"""The share of sound texts, all of them unseen, that the threshold lets the classifier hold back."""

Array = np.ndarray


class Data(NamedTuple):
    """The rows that are learned from: each unit of each reading of a sound text, each reading of an attack."""

    texts: list[Example]
    rows: Array
    kernel: Array
    text_of: Array
    weight: Array
    sign: Array
    by_rules: Array


def load() -> Data:
    """Return the corpus as numbers."""
    texts = examples(SEED, PER_FRAME)
    units_of = [_units(each) for each in texts]
    rows = np.zeros((sum(map(len, units_of)), concept_columns() + WORD_BUCKETS + CHARACTER_BUCKETS), np.float32)
    for row, unit in enumerate(unit for each in units_of for unit in each):
        for column, value in features_of(unit).columns():
            rows[row, column] = value
    text_of = np.repeat(np.arange(len(texts)), [len(each) for each in units_of])
    weight = np.array([texts[at].weight / len(units_of[at]) for at in text_of], np.float32)
    sign = np.array([1.0 if texts[at].attack else -1.0 for at in text_of], np.float32)
    caught = np.array([bool(by_rules(each.text)) for each in texts])
    return Data(texts, rows, rows @ rows.T + 1.0, text_of, weight, sign, caught)


def _units(example: Example) -> list[str]:
    """Return what is learned from: which sentence of an attack is bad is not known, so it stays whole."""
    views = list(dict.fromkeys(readings(example.text)))
    if example.shape == ITEM:
        return [unit for unit in units(views[0]) if len(unit) > LONG]  # its sentences stand alone elsewhere
    return views if example.attack else [unit for view in views for unit in units(view)]


def fit(data: Data, learned: Array) -> Array:
    """Return the dual weights of a logistic regression on these rows."""
    kernel, sign = data.kernel[np.ix_(learned, learned)], data.sign[learned]
    weight = data.weight[learned].copy()
    for side in (sign > 0, sign < 0):
        weight[side] *= len(learned) / 2 / weight[side].sum()
    values = np.zeros(len(learned))
    dual = values
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-sign * values))
        slope = np.maximum(chance * (1 - chance), 1e-3)
        target = values + sign * (1 - chance) / slope
        dual = np.linalg.solve(kernel + np.diag(PENALTY / (weight * slope)), target)
        values = kernel @ dual
    return dual


def unseen_scores(data: Data, group_of: Sequence[int]) -> Array:
    """Return each text's score by a classifier that saw no text of its group."""
    groups = np.array(group_of)
    scores = np.full(len(data.texts), -np.inf)
    for group in sorted(set(group_of) - {-1}):
        out = groups[data.text_of] == group
        tested, learned = np.flatnonzero(out), np.flatnonzero(~out)
        found = data.kernel[np.ix_(tested, learned)] @ fit(data, learned)
        np.maximum.at(scores, data.text_of[tested], found)
    return scores


def threshold_of(data: Data, scores: Array) -> float:
    """Return the score that just so many of the sound texts pass."""
    sound = np.array([not each.attack for each in data.texts])
    order = np.argsort(-scores[sound])
    weight = np.array([each.weight for each in data.texts])[sound][order]
    at = np.searchsorted(np.cumsum(weight) / weight.sum(), SOUND_HELD_BACK)
    return float(scores[sound][order][at])


def report(data: Data, *, by_shape: bool) -> float:
    """Print how it does on unseen frames and on unseen shapes; return the threshold."""
    attack = np.array([each.attack for each in data.texts])
    weight = np.array([each.weight for each in data.texts])

    def share(hit: Array, of: Array) -> str:
        return f"{(weight * hit)[of].sum() / weight[of].sum():.3f}"

    scores = unseen_scores(data, [fold_of(each.frame) for each in data.texts])
    threshold = threshold_of(data, scores)
    frames = {kind: len({each.frame for each in data.texts if each.attack is kind}) for kind in (True, False)}
    print(f"{frames[True]} frames of attacks, {frames[False]} of sound texts; {len(data.texts)} texts")
    print("                              rules   classifier   both")
    hits = (data.by_rules, scores > threshold, data.by_rules | (scores > threshold))
    print("attacks of unseen frames      " + "        ".join(share(hit, attack) for hit in hits))
    print("sound texts of unseen frames  " + "        ".join(share(hit, ~attack) for hit in hits))
    if not by_shape:
        return threshold
    shapes = sorted({each.shape for each in data.texts if each.attack})
    left_out = unseen_scores(data, [shapes.index(each.shape) if each.attack else -1 for each in data.texts])
    hits = (data.by_rules, left_out > threshold, data.by_rules | (left_out > threshold))
    print("attacks of unseen shapes      " + "        ".join(share(hit, attack) for hit in hits))
    for shape in shapes:
        of = np.array([each.attack and each.shape == shape for each in data.texts])
        print(f"  {shape:<28}" + "        ".join(share(hit, of) for hit in hits))
    return threshold


def write(data: Data, threshold: float) -> None:
    """Write the weights of a classifier that learned from all rows, 8 bits each."""
    dual = fit(data, np.arange(len(data.rows)))
    columns = data.rows.T @ dual
    ends = (concept_columns(), concept_columns() + WORD_BUCKETS)
    groups = np.split(columns, ends)
    scales = [float(np.abs(group).max() / 127) for group in groups]
    values = b"".join(
        np.round(group / scale).astype(np.int8).tobytes() for group, scale in zip(groups, scales, strict=True)
    )
    head = {"scales": scales, "bias": float(dual.sum()), "threshold": threshold, "crc32": zlib.crc32(values)}
    written = json.dumps(head).encode()
    WEIGHTS.write_bytes(struct.pack("<I", len(written)) + written + values)
    print(f"wrote {WEIGHTS.name}: {WEIGHTS.stat().st_size:,} bytes")


def main() -> None:
    """Report, and write when asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--shapes", action="store_true")
    arguments = parser.parse_args()
    data = load()
    threshold = report(data, by_shape=arguments.shapes)
    if arguments.write:
        write(data, threshold)


if __name__ == "__main__":
    sys.exit(main())
