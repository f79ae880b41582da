"""The audit covers what a user installs, does not take silence for a clean result, and writes a bill of materials."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from patience import FULL

pytest.importorskip("pip_audit", reason="pip-audit is in the group dev")

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "scripts" / "audit.py"

pytestmark = pytest.mark.fault

REPORTS: dict[str, list[dict[str, Any]]] = {
    "a hole": [
        {"name": "jinja2", "version": "2.10", "vulns": [
            {"id": "PYSEC-2019-217", "fix_versions": ["2.10.1"], "aliases": ["CVE-2019-10906"], "description": "…"}]},
        {"name": "click", "version": "8.5.1", "vulns": []},
    ],
    "no hole": [{"name": "click", "version": "8.5.1", "vulns": []}],
    "no answer about one": [
        {"name": "click", "version": "8.5.1", "vulns": []},
        {"name": "numpy", "skip_reason": "Dependency not found on PyPI and could not be audited: numpy (2.5.5)"},
    ],
    "no answer at all": [{"name": "numpy", "skip_reason": "Dependency not found on PyPI"}],
}  # fmt: skip
"""As pip-audit writes them with `--format json`."""


def audit(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=False)


def answering(tmp_path: Path, report: list[dict[str, Any]]) -> str:
    """Return a folder that shadows pip-audit with a program that prints a report in its format."""
    package = tmp_path / "pip_audit"
    package.mkdir()
    (package / "__init__.py").touch()
    text = json.dumps({"dependencies": report, "fixes": []})
    (package / "__main__.py").write_text(f"print({text!r})\n", "utf-8")
    return str(tmp_path)


def lock_of(tmp_path: Path) -> str:
    """Return a lock file with one dependency, so that pip-audit is started once."""
    lock = tmp_path / "uv.lock"
    ours = '[[package]]\nname = "swarm-memory"\nversion = "1"\ndependencies = [{ name = "click" }]\n'
    lock.write_text(f'{ours}[[package]]\nname = "click"\nversion = "8.5.1"\n', "utf-8")
    return str(lock)


@pytest.mark.parametrize(
    ("report", "code", "said"),
    [
        ("a hole", 1, "jinja2 2.10: PYSEC-2019-217 (CVE-2019-10906), mended in 2.10.1\nknown holes 1 in 2 of 2"),
        ("no hole", 0, "known holes 0 in 1 of 1 locked packages"),
        ("no answer about one", 0, "known holes 0 in 1 of 2 locked packages; not checked: no answer from the index"),
        ("no answer at all", 0, "not checked: no answer from the index about any of 1 locked packages"),
    ],
)
def test_a_hole_fails_the_step_and_silence_is_said_to_be_silence(
    tmp_path: Path, report: str, code: int, said: str
) -> None:
    done = audit("--lock", lock_of(tmp_path), PYTHONPATH=answering(tmp_path, REPORTS[report]))
    assert done.stdout.startswith(said), done
    assert done.returncode == code


def test_an_index_that_cannot_be_reached_is_said(tmp_path: Path) -> None:
    done = audit("--lock", lock_of(tmp_path), HTTPS_PROXY="http://127.0.0.1:9", NO_PROXY="")
    assert (done.returncode, done.stdout) == (0, "not checked: no answer from the index (ProxyError)\n"), done


def test_the_bill_of_materials_holds_every_dependency_and_extra_and_nothing_of_development(tmp_path: Path) -> None:
    file = tmp_path / "sbom.json"
    assert audit("--sbom", str(file)).returncode == 0
    bill = json.loads(file.read_text("utf-8"))
    named = {part["name"] for part in bill["components"]}
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    wanted = {re.split(r"[\s=<>;\[]", line, maxsplit=1)[0] for line in lines}
    assert bill["bomFormat"] == "CycloneDX"
    assert wanted - named == set()
    assert {"starlette", "onnxruntime"} <= named, "what dependencies and extras bring along"
    assert named & {"pytest", "ruff", "torch", "pip-audit"} == set()
    assert all(part["purl"] == f"pkg:pypi/{part['name']}@{part['version']}" for part in bill["components"])


@pytest.mark.skipif(not FULL, reason="asks the index: make faults, make audit")
def test_no_locked_dependency_has_a_known_hole() -> None:
    done = audit()
    assert done.returncode == 0, done.stdout
