"""Reads the files of datasets."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from swarm_memory.schema.benchmark import Dataset
from swarm_memory.schema.errors import InputError
from swarm_memory.tools.benchmark.conversations import Documents, locomo, locomo_sessions, longmemeval
from swarm_memory.tools.benchmark.datasets import beir, normalized, sample
from swarm_memory.tools.benchmark.suites.retrieval import DatasetName

DATASETS: dict[DatasetName, str] = {
    "sample": "ships with the package: notes of coding work, with near misses",
    "file": "a JSON file {name, items[{id, content, group?, time?}], questions[{query, gold[], group?, …}]}",
    "beir": "a folder with corpus.jsonl, queries.jsonl and qrels.tsv (or qrels/test.tsv)",
    "longmemeval": "the file as published, one item for each session",
    "locomo": "the file as published, one item for each turn",
    "locomo-sessions": "the same file, one item for each session",
}


def load(name: DatasetName, path: Path | None, documents: Documents) -> Dataset:
    """Return a dataset. Raises `InputError` that says what is wrong with which file, and where."""
    if name == "sample":
        return sample()
    if path is None:
        raise InputError(f"dataset {name} needs a path: {DATASETS[name]}")
    if name == "beir":
        return _beir(path)
    forms: dict[str, Callable[[object, str], Dataset]] = {
        "file": normalized,
        "locomo": locomo,
        "locomo-sessions": locomo_sessions,
        "longmemeval": partial(longmemeval, documents=documents),
    }
    return forms[name](_json(path), path.name)


def _beir(folder: Path) -> Dataset:
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: dataset beir is {DATASETS['beir']}")
    judgements = next((path for path in (folder / "qrels.tsv", folder / "qrels" / "test.tsv") if path.is_file()), None)
    if judgements is None:
        raise InputError(f"{folder} has neither qrels.tsv nor qrels/test.tsv")
    corpus, queries = folder / "corpus.jsonl", folder / "queries.jsonl"
    where = {"corpus": corpus.name, "queries": queries.name, "qrels": judgements.name}
    return beir(folder.name, _lines(corpus), _lines(queries), _text(judgements).splitlines(), where)


def _lines(path: Path) -> Iterator[Any]:
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if line.strip():
            yield _parsed(line, f"{path.name}: line {number}")


def _json(path: Path) -> Any:
    return _parsed(_text(path), path.name)


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where}: this is no JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from error
    except RecursionError as error:
        raise InputError(f"{where}: it is nested too deep") from error


def _text(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is no regular file")  # a pipe or a device may never end
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name}: it is not UTF-8 at byte {error.start}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
