"""`make` installs only the product for a demo, adds what tests need for the tests, and does each once."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make here")

MAKEFILE = Path(__file__).resolve().parents[2] / "Makefile"

INSTALLS = """mkdir -p .venv/bin
for name in swarm-memory pytest; do printf '#!/bin/sh\\necho "$(basename $0) $*"\\n' > .venv/bin/$name; done
chmod +x .venv/bin/*
"""
UV = f'#!/bin/sh\n[ "$1" = --version ] && exit 0\necho "uv $*"\n{INSTALLS}'
PYTHON = (
    f'#!/bin/sh\n[ "$1" = -c ] && exit 0\necho "python $*"\nmkdir -p .venv/bin\ncp "$0" .venv/bin/python\n{INSTALLS}'
)
DEMO = "swarm-memory demo"
ALL = "pytest -n auto --dist worksteal -q --durations=10"
TESTS = f"{ALL} -m not e2e"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with our Makefile, and a `uv` and a `python3` that only print how they were called."""
    shutil.copy(MAKEFILE, tmp_path)
    for name in ("pyproject.toml", "uv.lock"):
        (tmp_path / name).touch()
    (tmp_path / "bin").mkdir()
    for name, text in (("uv", UV), ("python3", PYTHON)):
        (tmp_path / "bin" / name).write_text(text, "utf-8")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def said(project: Path, target: str) -> list[str]:
    """Make a target and return the lines of the Makefile and of the programs it calls."""
    path = f"{project / 'bin'}{os.pathsep}{os.environ['PATH']}"
    command = ["make", "--no-print-directory", "--silent", target]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")} | {"PATH": path}
    done = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def make(project: Path, target: str) -> list[str]:
    """Make a target and return how programs were called."""
    return [line for line in said(project, target) if not line.startswith(("Installing", "Adding"))]


def test_with_uv_the_demo_installs_the_product_alone_and_the_tests_add_the_rest(project: Path) -> None:
    installing, *lines = said(project, "demo")
    assert installing.startswith("Installing swarm-memory and what it needs into .venv with uv"), "before it does it"
    assert lines == ["uv sync --frozen --inexact --no-default-groups", DEMO]
    assert make(project, "demo") == [DEMO]
    assert make(project, "test") == ["uv sync --frozen", TESTS]
    assert make(project, "test") == [TESTS]
    assert make(project, "e2e") == [f"{ALL} -m e2e"]


def test_without_uv_pip_does_the_same(project: Path) -> None:
    (project / "bin" / "uv").write_text("#!/bin/sh\nexit 1\n", "utf-8")
    pip = "python -m pip install --disable-pip-version-check"
    assert make(project, "demo") == ["python -m venv .venv", f"{pip} --editable .", DEMO]
    assert make(project, "test") == [f"{pip} pip>=25.1", "python -m pip install --group dev", TESTS]
    assert make(project, "test") == [TESTS]


@pytest.mark.parametrize("changed", ["pyproject.toml", "uv.lock"])
def test_what_changes_the_installation_installs_it_again(project: Path, changed: str) -> None:
    make(project, "test")
    later = (project / ".venv" / "ready").stat().st_mtime + 1
    os.utime(project / changed, (later, later))
    for stamp in ("product", "ready"):
        os.utime(project / ".venv" / stamp, (later - 1, later - 1))
    assert make(project, "test") == ["uv sync --frozen --inexact --no-default-groups", "uv sync --frozen", TESTS]


def test_an_installation_that_failed_is_tried_again(project: Path) -> None:
    (project / "bin" / "uv").write_text('#!/bin/sh\n[ "$1" = --version ]\n', "utf-8")
    with pytest.raises(subprocess.CalledProcessError):
        make(project, "demo")
    (project / "bin" / "uv").write_text(UV, "utf-8")
    assert make(project, "demo") == ["uv sync --frozen --inexact --no-default-groups", DEMO]
