"""Train the classifier of suspect texts, and say how it does on texts that it has not seen.

    python scripts/screening/train.py            # with one author left out each time
    python scripts/screening/train.py --shapes   # and with one shape of attack left out each time
    python scripts/screening/train.py --write    # and the weights that ship

Needs scikit-learn (`pip install --group training`). Attacks weigh as much as sound texts; of an attack whose poisoned
sentence is marked only that is learned, of a sound text every sentence.
"""

# pyright: basic
import argparse
import json
import struct
import sys
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from corpus import COUNTED_WHOLE, ITEM, Example, examples
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from swarm_memory.tools.guard.classifier import (
    WEIGHTS,
    WORD_BUCKETS,
    concept_columns,
    features_of,
    units,
)
from swarm_memory.tools.guard.screen import by_rules, readings

SEED, PER_FRAME = 1, 2
INVERSE_PENALTY = 3.0
LONG = 130
TWIN = "twin"
SOUND_HELD_BACK = 0.045
"""The share of sound texts of an unseen author that the threshold lets the classifier hold back; about half of them
were written to look like attacks. Twins of attacks are not counted: they differ from them in one clause, and no real
bank is made of such."""

Array = np.ndarray


class Data(NamedTuple):
    """The rows: each unit of each reading of each text, and which of them are learned from."""

    texts: list[Example]
    rows: csr_matrix
    text_of: Array
    weight: Array
    """How much a row counts when it is learned; 0 for one that is only scored."""
    attack: Array
    by_rules: Array


def load() -> Data:
    """Return the corpus as numbers."""
    texts = examples(SEED, PER_FRAME)
    units_of = [_units(each) for each in texts]
    cells = [
        (row, column, value)
        for row, unit in enumerate(unit for each in units_of for unit in each)
        for column, value in features_of(unit).columns()
    ]
    row_of, column_of, value_of = zip(*cells, strict=True)
    shape = (sum(map(len, units_of)), concept_columns() + WORD_BUCKETS)
    rows = csr_matrix((value_of, (row_of, column_of)), shape=shape, dtype=np.float64)
    text_of = np.repeat(np.arange(len(texts)), [len(each) for each in units_of])
    weight = np.concatenate([_weights(example, found) for example, found in zip(texts, units_of, strict=True)])
    attack = np.array([each.attack for each in texts])
    caught = np.array([bool(by_rules(each.text)) for each in texts])
    return Data(texts, rows, text_of, weight, attack, caught)


def _units(example: Example) -> list[str]:
    """Return what is scored: every unit of every reading, the whole text first."""
    views = list(dict.fromkeys(readings(example.text)))
    if example.shape == ITEM:
        return [unit for unit in units(views[0]) if len(unit) > LONG]  # its sentences stand alone elsewhere
    return list(dict.fromkeys(unit for view in views for unit in units(view)))


def _weights(example: Example, found: list[str]) -> Array:
    """Return how much each unit counts. Which sentence of an attack is bad is known only where it is marked."""
    if not example.attack:
        return np.full(len(found), example.weight)
    poison = readings(example.poison)[0] if example.poison else None
    bad = [at for at, unit in enumerate(found) if poison and (unit in poison or poison in unit)] or [0]
    weight = np.zeros(len(found))
    weight[bad] = example.weight / len(bad)
    return weight


def fit(data: Data, learned: Array) -> LogisticRegression:
    """Return a logistic regression on these rows, as much weight on attacks as on sound texts."""
    weight, attack = data.weight[learned].copy(), data.attack[data.text_of[learned]]
    for side in (attack, ~attack):
        weight[side] *= len(learned) / 2 / weight[side].sum()
    model = LogisticRegression(C=INVERSE_PENALTY, solver="liblinear", max_iter=3000, random_state=SEED)
    return model.fit(data.rows[learned], attack, sample_weight=weight)


def unseen_scores(data: Data, group_of: Sequence[int]) -> Array:
    """Return each text's score by a classifier that saw no text of its group."""
    groups = np.array(group_of)[data.text_of]
    scores = np.full(len(data.texts), -np.inf)
    for group in sorted(set(group_of) - {-1}):
        tested = np.flatnonzero(groups == group)
        found = fit(data, np.flatnonzero((groups != group) & (data.weight > 0))).decision_function(data.rows[tested])
        np.maximum.at(scores, data.text_of[tested], found)
    return scores


def threshold_of(data: Data, scores: Array) -> float:
    """Return the score that just so many of the sound texts pass, where each author counts as much as another."""
    sound = np.flatnonzero([not each.attack and each.shape != TWIN for each in data.texts])
    author = np.array([data.texts[at].author for at in sound])
    weight = np.array([data.texts[at].weight for at in sound])
    for one in set(author):
        weight[author == one] /= weight[author == one].sum()
    order = np.argsort(-scores[sound])
    at = np.searchsorted(np.cumsum(weight[order]) / weight.sum(), SOUND_HELD_BACK)
    return float(scores[sound][order][at])


def report(data: Data, *, by_shape: bool) -> float:
    """Print how it does on texts of unseen authors and on unseen shapes; return the threshold."""
    weight = np.array([each.weight for each in data.texts])
    shape_of = np.array([each.shape for each in data.texts])
    author_of = np.array([each.author for each in data.texts])

    def line(what: str, of: Array, hits: tuple[Array, ...]) -> None:
        shares = ((weight * hit)[of].sum() / weight[of].sum() for hit in hits)
        print(f"{what:<30}" + "        ".join(f"{share:.3f}" for share in shares))

    authors = sorted(set(author_of))
    scores = unseen_scores(data, [authors.index(each) for each in author_of])
    threshold = threshold_of(data, scores)
    hits = (data.by_rules, scores > threshold, data.by_rules | (scores > threshold))
    print(f"{data.attack.sum()} attacks, {(~data.attack).sum()} sound texts; threshold {threshold:.2f}")
    print("                              rules   classifier   both")
    sound = ~data.attack & (shape_of != TWIN)
    for author in authors:
        if (data.attack & (author_of == author)).any():
            line(f"attacks of unseen author {author}", data.attack & (author_of == author), hits)
        line("sound texts of the same", sound & (author_of == author), hits)
    for kind in (TWIN, "look", "plain", *COUNTED_WHOLE, ITEM, "docstrings"):
        line(f"sound: {kind}", ~data.attack & (shape_of == kind), hits)
    if not by_shape:
        return threshold
    shapes = sorted({each.shape for each in data.texts if each.attack})
    left_out = unseen_scores(data, [shapes.index(each.shape) if each.attack else -1 for each in data.texts])
    hits = (data.by_rules, left_out > threshold, data.by_rules | (left_out > threshold))
    line("attacks of unseen shapes", data.attack, hits)
    for shape in shapes:
        line(f"  {shape}", data.attack & (shape_of == shape), hits)
    return threshold


def write(data: Data, threshold: float) -> None:
    """Write the weights of a classifier that learned from all rows, 8 bits each."""
    model = fit(data, np.flatnonzero(data.weight > 0))
    groups = np.split(model.coef_[0], [concept_columns()])
    scales = [float(np.abs(group).max() / 127) for group in groups]
    values = b"".join(
        np.round(group / scale).astype(np.int8).tobytes() for group, scale in zip(groups, scales, strict=True)
    )
    head = {
        "scales": scales,
        "bias": float(np.ravel(model.intercept_)[0]),
        "threshold": threshold,
        "crc32": zlib.crc32(values),
    }
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
