"""Names of people and places in English prose, found by Presidio with a model of spaCy.

Off unless `distill.redact_pii` is `names`, for it takes seconds to load and milliseconds for each sentence.
"""

import importlib
import threading
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from swarm_memory.schema.errors import ConfigError
from swarm_memory.tools.guard.rules import MARK, Span

if TYPE_CHECKING:
    from swarm_memory.schema.settings import PersonalData

MODELS = ("en_core_web_lg", "en_core_web_md", "en_core_web_sm")
"""The best installed one is used. Presidio would download a missing one by itself: it is never asked for one."""

_MARKS = {"PERSON": "[person]", "LOCATION": "[place]"}
"""Our marks by Presidio's entities."""

_MAX_CHARS = 20_000
"""spaCy's models take a gigabyte for 100,000 characters, and refuse a million."""

_ONE_AT_A_TIME = threading.Lock()


def check_detector(pii: "PersonalData") -> None:
    """Raise `ConfigError`, which says what to install, where `names` are wanted and what finds them is missing."""
    if pii != "names":
        return
    has_library = find_spec("presidio_analyzer") is not None
    if has_library and any(map(find_spec, MODELS)):
        return
    lacking = f"python -m spacy download {MODELS[0]}" if has_library else "pip install presidio-analyzer"
    raise ConfigError(f"distill.redact_pii is names, but the name detector is not installed: {lacking}")


@cache
def _analyzer() -> Any:
    import logging

    check_detector("names")
    logging.getLogger("presidio-analyzer").setLevel(logging.ERROR)  # it warns of each entity that was not requested
    model = next(filter(find_spec, MODELS))
    configuration = {"nlp_engine_name": "spacy", "models": [{"lang_code": "en", "model_name": model}]}
    provider: Any = importlib.import_module("presidio_analyzer.nlp_engine").NlpEngineProvider
    engine: Any = importlib.import_module("presidio_analyzer").AnalyzerEngine
    return engine(nlp_engine=provider(nlp_configuration=configuration).create_engine(), supported_languages=["en"])


def find_names(text: str) -> Iterator[Span]:
    """Yield the names of people and places, except those that touch an existing mark.

    Pieces of at most 20,000 characters are read, cut at line ends where there are some. Raises `ConfigError`.
    """
    start = 0
    while start < len(text):
        end = start + _MAX_CHARS
        end = (text.rfind("\n", start, end) + 1 or end) if end < len(text) else len(text)
        with _ONE_AT_A_TIME:
            every = _analyzer().analyze(text=text[start:end], language="en", entities=[*_MARKS])
        marks = [mark.span() for mark in MARK.finditer(text, start, end)]
        for found in every:
            first, last = start + found.start, start + found.end
            if not any(begin < last and first < stop for begin, stop in marks):
                yield Span(first, last, _MARKS[found.entity_type], "presidio")
        start = end
