"""Trains the distilled table against its teacher on the corpus; it knows nothing of any evaluation set.

Batches hold snippets of one kind. Four losses are summed:
- direction: the cosine to the teacher's vector in its first 256 principal directions;
- neighbours: the Kullback-Leibler divergence from the similarities in the batch. On documents and code the teacher
  gives them; on talk, where a table of words finds more than the teacher, the distilled table gives most of them;
- pairs: a contrastive loss (InfoNCE) of a question and what answers it, for the kinds that have such pairs;
- fragments: the same for a random part of a text and the whole of it, which teaches the weights of rare words.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from distill import FloatMatrix, principal_directions
from teach import distinct_texts
from torch import Tensor
from torch.nn import functional

from swarm_memory.server.embedding.static import WordPiece

CODE = frozenset({"code", "function"})
TALK = frozenset({"conversation", "letter", "story"})
PAIRED = frozenset({"code", "heading", "manual", "service"})
TEMPERATURE = 0.05
MAX_ROWS = 200


@dataclass(frozen=True, slots=True)
class Recipe:
    """The numbers of a training run."""

    epochs: int = 6
    batch: int = 1024
    learning_rate: float = 2e-3
    direction: float = 1.0
    neighbours: float = 0.1
    pairs: float = 0.5
    fragments: float = 0.05
    talk_anchor: float = 0.5
    """Share of the distilled table, against the teacher, in the similarities that talk is trained to."""
    other_anchor: float = 0.0
    code_repeats: int = 1
    """How often the snippets of code are seen in an epoch."""
    seed: int = 20_261_121


@dataclass(frozen=True, slots=True)
class Lesson:
    """The corpus as numbers: each distinct text's rows of the table, the teacher's vectors, and the snippets."""

    rows: list[npt.NDArray[np.int64]]
    teacher: Tensor
    target: Tensor
    snippets: dict[str, list[tuple[int, int]]]
    """By kind: the places of a snippet's text and of its pair, -1 without one."""


class Student(torch.nn.Module):
    """A table of vectors and one learned weight for each row."""

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.vectors = torch.nn.Parameter(vectors.clone())
        self.log_weights = torch.nn.Parameter(torch.zeros(len(vectors)))

    def forward(self, texts: list[npt.NDArray[np.int64]]) -> Tensor:
        """Return unit vectors, one for each list of rows."""
        rows = torch.from_numpy(np.concatenate(texts))
        starts = torch.from_numpy(np.cumsum([0, *[len(text) for text in texts[:-1]]]))
        weights = self.log_weights[rows].exp()
        sums = functional.embedding_bag(rows, self.vectors, starts, mode="sum", per_sample_weights=weights)
        return functional.normalize(sums, dim=1)

    def table(self) -> FloatMatrix:
        with torch.inference_mode():
            return (self.vectors * self.log_weights.exp()[:, None]).numpy()


def load_lesson(corpus: Path, teacher_shards: list[Path], words: list[str]) -> Lesson:
    texts = distinct_texts(corpus)
    teacher = np.empty((len(texts), 384), np.float32)
    for shard, path in enumerate(teacher_shards):
        teacher[shard :: len(teacher_shards)] = np.load(path)
    tokenizer = WordPiece({word: row for row, word in enumerate(words)}, buckets=1)
    rows = [np.array([r for r in tokenizer.rows(text)[:MAX_ROWS] if r < len(words)], np.int64) for text in texts]
    place = {text: at for at, text in enumerate(texts)}
    snippets: dict[str, list[tuple[int, int]]] = defaultdict(list)
    with corpus.open(encoding="utf-8") as lines:
        for snippet in map(json.loads, lines):
            text, pair = place[snippet["text"]], place.get(snippet["pair"], -1)
            if len(rows[text]) > 0:
                snippets[snippet["kind"]].append((text, pair if pair >= 0 and len(rows[pair]) > 0 else -1))
    target = teacher @ principal_directions(teacher, 256)
    target /= np.linalg.norm(target, axis=1, keepdims=True)
    return Lesson(rows, torch.from_numpy(teacher), torch.from_numpy(target), dict(snippets))


def rotated(vectors: Tensor, lesson: Lesson) -> Tensor:
    """Turn the table so that its sentences lie nearest to the teacher's (orthogonal Procrustes); cosines stay."""
    sample = [at for at in range(0, len(lesson.rows), 10) if len(lesson.rows[at]) > 0]
    with torch.inference_mode():
        sentences = Student(vectors)([lesson.rows[at] for at in sample])
    left, _, right = torch.linalg.svd(sentences.T @ lesson.target[sample])
    return vectors @ (left @ right)


def batches(lesson: Lesson, recipe: Recipe, random: np.random.Generator) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Yield (kind, snippets) in random order; the last, short batch of a kind is left out."""
    found: list[tuple[str, list[tuple[int, int]]]] = []
    for kind, snippets in lesson.snippets.items():
        for _ in range(recipe.code_repeats if kind in CODE else 1):
            order = random.permutation(len(snippets))
            starts = range(0, len(order) - recipe.batch + 1, recipe.batch)
            found += [(kind, [snippets[at] for at in order[start : start + recipe.batch]]) for start in starts]
    for at in random.permutation(len(found)):
        yield found[at]


def fragment(rows: npt.NDArray[np.int64], random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return a random quarter to half of a text's rows."""
    kept = rows[random.random(len(rows)) < random.uniform(0.25, 0.5)]
    return kept if len(kept) > 0 else rows[:1]


def divergence(similarities: Tensor, wanted: Tensor) -> Tensor:
    """Return the mean KL divergence of the rows' softmax from the wanted ones', a text itself left out."""
    itself = torch.eye(len(wanted), dtype=torch.bool)
    student = (similarities / TEMPERATURE).masked_fill(itself, -1e4).log_softmax(dim=1)
    return functional.kl_div(
        student, (wanted / TEMPERATURE).masked_fill(itself, -1e4).softmax(dim=1), reduction="batchmean"
    )


def contrast(left: Tensor, right: Tensor) -> Tensor:
    """Return InfoNCE both ways: row i of each side belongs to row i of the other."""
    similarities = left @ right.T / TEMPERATURE
    own = torch.arange(len(left))
    return (functional.cross_entropy(similarities, own) + functional.cross_entropy(similarities.T, own)) / 2


def loss_of(
    student: Student, distilled: Student, lesson: Lesson, recipe: Recipe, kind: str, places: list[tuple[int, int]],
    random: np.random.Generator,
) -> Tensor:  # fmt: skip
    texts = [text for text, _ in places]
    paired = kind in PAIRED
    everything = texts + [pair for _, pair in places if pair >= 0]
    vectors = student([lesson.rows[at] for at in everything])
    teacher = lesson.teacher[everything]
    with torch.inference_mode():
        words = distilled([lesson.rows[at] for at in everything])
    share = recipe.talk_anchor if kind in TALK else recipe.other_anchor
    wanted = (1 - share) * (teacher @ teacher.T) + share * (words @ words.T)
    loss = recipe.neighbours * divergence(vectors @ vectors.T, wanted.clone())
    loss = loss + recipe.direction * (1 - share) * (1 - (vectors * lesson.target[everything]).sum(dim=1)).mean()
    if paired and recipe.pairs:
        with_pair = [at for at, (_, pair) in enumerate(places) if pair >= 0]
        loss = loss + recipe.pairs * contrast(vectors[with_pair], vectors[len(places) :])
    if recipe.fragments:
        parts = student([fragment(lesson.rows[at], random) for at in texts])
        loss = loss + recipe.fragments * contrast(parts, vectors[: len(texts)])
    return loss


def train(vectors: FloatMatrix, lesson: Lesson, recipe: Recipe) -> FloatMatrix:
    """Return the trained table, float32, of the same shape."""
    torch.manual_seed(recipe.seed)
    random = np.random.default_rng(recipe.seed)
    start = rotated(torch.from_numpy(vectors), lesson)
    distilled, student = Student(start), Student(start)
    optimizer = torch.optim.Adam(
        [{"params": [student.vectors]}, {"params": [student.log_weights], "lr": 5 * recipe.learning_rate}],
        lr=recipe.learning_rate,
    )
    steps = recipe.epochs * sum(1 for _ in batches(lesson, recipe, np.random.default_rng(0)))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, [recipe.learning_rate, 5 * recipe.learning_rate], total_steps=steps, pct_start=0.1
    )
    for epoch in range(recipe.epochs):
        losses: list[float] = []
        for kind, places in batches(lesson, recipe, random):
            loss = loss_of(student, distilled, lesson, recipe, kind, places, random)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
        print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}", flush=True)
    return student.table()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--teacher", type=Path, nargs="+", required=True, help="the shards of teach.py, in order")
    parser.add_argument("--distilled", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    for name, default in _defaults():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    args = parser.parse_args()
    torch.set_num_threads(1)
    first = np.load(args.distilled)
    words: list[str] = first["words"].tolist()
    recipe = Recipe(**{name: getattr(args, name) for name, _ in _defaults()})
    lesson = load_lesson(args.corpus, args.teacher, words)
    np.savez(args.out, words=first["words"], vectors=train(first["vectors"], lesson, recipe))


def _defaults() -> list[tuple[str, float | int]]:
    recipe = Recipe()
    return [(name, getattr(recipe, name)) for name in Recipe.__slots__]


if __name__ == "__main__":
    main()
