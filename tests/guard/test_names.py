"""Names of people and places are removed if the user wants that, by Presidio, which a stand-in replaces here.

The stand-in has the interface of presidio-analyzer 2.2: the same names, parameters and results.
"""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from forked import ISOLATED, run
from shell import Shell, project, swarm

__all__ = ["project", "swarm"]

ANALYZER = """
import re
from dataclasses import dataclass

FOUND = {"PERSON": r"Ada Lovelace|Grace Hopper|Redis", "LOCATION": r"12 Elm Street|Oslo", "NRP": r"Norwegian"}

@dataclass
class RecognizerResult:
    entity_type: str
    start: int
    end: int
    score: float

class AnalyzerEngine:
    def __init__(self, registry=None, nlp_engine=None, app_tracer=None, log_decision_process=False,
                 default_score_threshold=0, supported_languages=None, context_aware_enhancer=None):
        assert nlp_engine is not None, "it would load a model by itself"
        assert supported_languages == ["en"]

    def analyze(self, text, language, entities=None, correlation_id=None, score_threshold=None,
                return_decision_process=False, ad_hoc_recognizers=None, context=None, allow_list=None,
                allow_list_match="exact", regex_flags=None, nlp_artifacts=None):
        assert language == "en"
        assert len(text) <= 100_000, "a model takes a gigabyte for so much"
        return [RecognizerResult(kind, *match.span(), 0.85)
                for kind in entities or FOUND for match in re.finditer(FOUND[kind], text)]
"""
ENGINE = """
from importlib.util import find_spec

class NlpEngineProvider:
    def __init__(self, nlp_engines=None, conf_file=None, nlp_configuration=None):
        (model,) = nlp_configuration["models"]
        assert nlp_configuration["nlp_engine_name"] == "spacy" and model["lang_code"] == "en"
        if find_spec(model["model_name"]) is None:
            raise SystemExit("it would be downloaded")

    def create_engine(self):
        return object()
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the stand-in and the smallest of the models."""
    for name, text in (
        ("presidio_analyzer/__init__.py", ANALYZER),
        ("presidio_analyzer/nlp_engine.py", ENGINE),
        ("en_core_web_sm/__init__.py", ""),
    ):
        (tmp_path / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "site" / name).write_text(text)
    return tmp_path / "site"


def run_with(installed: Path, text: str, *words: str) -> str:
    done = run([*ISOLATED, "-c", f"import sys; sys.path.insert(0, {str(installed)!r})\n{text}", *words], text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_remembered_and_indexed_has_no_name_of_a_person_or_place(project: Path, installed: Path) -> None:
    (project / "people.md").write_text("# Who knows\n\nGrace Hopper of 12 Elm Street wrote the Norwegian compiler.\n")
    program = "from swarm_memory.server.cli.main import main; main()"
    by_names = (program, "--set", "distill.redact_pii=names", "--set", "embedding.provider=static")

    def command(*words: str) -> Any:
        return json.loads(run_with(installed, *by_names, *words, "--json"))

    kept = command("remember", "Ask Ada Lovelace in Oslo (ada@acme.org) before a release.")
    assert "[person] in [place] ([email])" in kept["title"] + kept.get("content", "")
    assert command("sources", "index", "people.md", "--kind", "document")["added"] == 1
    (hit,) = command("sources", "search", "who wrote the compiler")["hits"]
    assert "[person] of [place] wrote the Norwegian compiler" in hit["text"]


def test_long_texts_are_looked_at_in_pieces_and_marks_are_left_alone(installed: Path) -> None:
    script = """
import json
from swarm_memory.tools.guard.redact import redact
line = "The cache is cold and nothing of it matters to anybody here.\\n"
long = line * 2_000 + "Ada Lovelace said so.\\n" + line * 2_000 + "x" * 50_000 + " Oslo"
once = redact(long, pii="names")
assert once.text == long.replace("Ada Lovelace", "[person]").replace("Oslo", "[place]")
assert redact(once.text, pii="names").text == once.text
assert redact("Ada Lovelace", pii=True).text == redact("Ada Lovelace", pii=False).text == "Ada Lovelace"
both = redact("mail ada@acme.org, Ada Lovelace", pii="names")
named = "password: Ada Lovelace, pass=Oslo"
assert redact(redact(named, pii="names").text, pii="names").text == redact(named, pii="names").text
print(json.dumps([both.text, both.counts, redact("", pii="names").text]))
"""
    found = json.loads(run_with(installed, script))
    assert found == ["mail [email], [person]", {"[email]": 1, "[person]": 1}, ""]


def test_where_nothing_finds_them_every_use_says_what_to_install(project: Path, swarm: Shell) -> None:
    refused = swarm("--set", "distill.redact_pii=names", "remember", "We use pnpm here.")
    assert refused.code != 0
    assert "distill.redact_pii is names, but the name detector is not installed" in refused.err
    assert "pip install presidio-analyzer" in refused.err
    assert "redact_pii" not in swarm("remember", "We use pnpm here.").err
    examined = swarm("--set", "distill.redact_pii=names", "doctor")
    assert "settings: distill.redact_pii is names, but the name detector is not installed: pip install" in examined.out
    assert examined.code == 1
    assert "not checked: " in examined.out


def test_presidio_alone_is_not_asked_to_download_a_model(
    project: Path, swarm: Shell, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (installed / "en_core_web_sm" / "__init__.py").unlink()
    (installed / "en_core_web_sm").rmdir()
    monkeypatch.setattr(sys, "path", [str(installed), *sys.path])
    refused = swarm("--set", "distill.redact_pii=names", "remember", "We use pnpm here.")
    assert "python -m spacy download en_core_web_lg" in refused.err
