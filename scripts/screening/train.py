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
from typing import NamedTuple

import numpy as np
from corpus import FRAMES, ITEM, Example, examples
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from swarm_memory.tools.guard.screen import (
    WEIGHTS,
    WORD_BUCKETS,
    by_rules,
    count_concept_columns,
    features_of,
    readings,
    units,
)

SEED, PER_FRAME = 1, 2
INVERSE_PENALTY = 3.0
LONG = 130
TWIN = "twin"
THRESHOLD = 1.5
"""What ordinary text seldom scores: chosen on the half of the texts in docs/BENCHMARKS.md that may be looked at, where
at most 0.5 % of the strategies and 1 % of the sentences of any other register score more."""

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
        for columns, value in features_of(unit)
        for column in columns
    ]
    row_of, column_of, value_of = zip(*cells, strict=True)
    shape = (sum(map(len, units_of)), count_concept_columns() + WORD_BUCKETS)
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


def unseen_scores(data: Data, groups: Array) -> Array:
    """Return each text's score by a classifier that saw no text of its group; of group "" none is left out."""
    scores = np.full(len(data.texts), -np.inf)
    group_of = groups[data.text_of]
    for group in sorted(set(groups) - {""}):
        tested = np.flatnonzero(group_of == group)
        found = fit(data, np.flatnonzero((group_of != group) & (data.weight > 0))).decision_function(data.rows[tested])
        np.maximum.at(scores, data.text_of[tested], found)
    return scores


def report(data: Data, *, by_shape: bool) -> None:
    """Print how it does on texts of unseen authors and on unseen shapes."""
    weight = np.array([each.weight for each in data.texts])
    shape_of = np.array([each.shape for each in data.texts])
    author_of = np.array(["" if each.author == FRAMES else each.author for each in data.texts])

    def line(what: str, of: Array, hits: tuple[Array, ...]) -> None:
        shares = ((weight * hit)[of].sum() / weight[of].sum() for hit in hits)
        print(f"{what:<30}" + "        ".join(f"{share:.3f}" for share in shares))

    scores = unseen_scores(data, author_of)
    hits = (data.by_rules, scores > THRESHOLD, data.by_rules | (scores > THRESHOLD))
    print(f"{data.attack.sum()} attacks, {(~data.attack).sum()} sound texts")
    print("                              rules   classifier   both")
    for author in sorted(set(author_of) - {""}):
        if (data.attack & (author_of == author)).any():
            line(f"attacks of unseen author {author}", data.attack & (author_of == author), hits)
        for kind in ("plain", "look"):
            line(f"sound texts of the same: {kind}", (author_of == author) & (shape_of == kind), hits)
    line("twins of attacks", shape_of == TWIN, hits)
    if not by_shape:
        return
    groups = np.where(data.attack, shape_of, "")
    left_out = unseen_scores(data, groups)
    hits = (data.by_rules, left_out > THRESHOLD, data.by_rules | (left_out > THRESHOLD))
    line("attacks of unseen shapes", data.attack, hits)
    for shape in sorted(set(groups) - {""}):
        line(f"  {shape}", groups == shape, hits)


def write(data: Data) -> None:
    """Write the weights of a classifier that learned from all rows, 8 bits each."""
    model = fit(data, np.flatnonzero(data.weight > 0))
    groups = np.split(model.coef_[0], [count_concept_columns()])
    scales = [float(np.abs(group).max() / 127) for group in groups]
    values = b"".join(
        np.round(group / scale).astype(np.int8).tobytes() for group, scale in zip(groups, scales, strict=True)
    )
    head = {
        "scales": scales,
        "bias": float(np.ravel(model.intercept_)[0]),
        "threshold": THRESHOLD,
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
    report(data, by_shape=arguments.shapes)
    if arguments.write:
        write(data)


if __name__ == "__main__":
    sys.exit(main())
