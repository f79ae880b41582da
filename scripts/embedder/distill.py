"""Makes the first table: each word of the teacher's vocabulary, embedded alone, in 256 principal directions.

The words' weights follow Zipf's law and the smooth inverse frequency of Arora, Liang and Ma (2017), since BERT's
vocabulary is ordered by frequency; this is the recipe of Model2Vec.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from teach import load_teacher, teacher_folder

DIMENSIONS = 256
SIF_COEFFICIENT = 1e-4
FloatMatrix = npt.NDArray[np.float32]


def vocabulary() -> dict[str, int]:
    """Return the words that can occur in a text and the teacher's ids of them, in order."""
    words = json.loads((teacher_folder() / "tokenizer.json").read_text("utf-8"))["model"]["vocab"]
    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    kept = {word: row for word, row in words.items() if word not in special and not word.startswith("[unused")}
    return dict(sorted(kept.items(), key=lambda item: item[1]))


@torch.inference_mode()
def embed_alone(ids: list[int]) -> FloatMatrix:
    """Return the mean of the teacher's last layer over ``[CLS] word [SEP]`` for each id."""
    teacher = load_teacher()
    encoder, first, last = teacher[0].auto_model, teacher.tokenizer.cls_token_id, teacher.tokenizer.sep_token_id
    inputs = torch.tensor([[first, word, last] for word in ids])
    return np.concatenate(
        [encoder(input_ids=batch).last_hidden_state.mean(dim=1).numpy() for batch in inputs.split(512)]
    )


def principal_directions(matrix: FloatMatrix, count: int) -> FloatMatrix:
    """Return the ``count`` eigenvectors of the covariance with the largest eigenvalues, as columns, signs fixed."""
    _, vectors = np.linalg.eigh(np.cov(matrix, rowvar=False))
    largest = vectors[:, ::-1][:, :count]
    return (largest * np.sign(largest[np.abs(largest).argmax(axis=0), range(count)])).astype(np.float32)


def distill() -> tuple[list[str], FloatMatrix]:
    """Return the words and their weighted vectors, float32 (words, 256)."""
    words = vocabulary()
    vectors = embed_alone(list(words.values()))
    centred = vectors - vectors.mean(axis=0)
    projected = centred @ principal_directions(centred, DIMENSIONS)
    share = 1 / np.arange(2, len(words) + 2)
    weights = SIF_COEFFICIENT / (SIF_COEFFICIENT + share / share.sum())
    return list(words), (projected * weights[:, None]).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="an .npz with the words and their vectors")
    args = parser.parse_args()
    torch.set_num_threads(1)
    words, vectors = distill()
    np.savez(args.out, words=np.array(words), vectors=vectors)
    print(f"{len(words)} words, {vectors.shape[1]} dimensions")


if __name__ == "__main__":
    main()
