"""The wheel, built from the sdist and installed in a clean environment, works from a folder full of traps."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from made_files import written
from patience import HANG_S

ROOT = Path(__file__).resolve().parents[2]
TRAPS = ("server", "tools", "schema", "mcp", "pydantic")
TRAP = "raise SystemExit('the project shadowed a module')\n"


def run(*command: str | Path, cwd: Path, **more: str) -> str:
    """Run a command offline and return its output. `more`: environment variables."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_", "VIRTUAL"))}
    environ |= {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **more}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder shared by this test run, filled by the first process that needs it."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with closing(sqlite3.connect(folder.with_suffix(".lock"), timeout=HANG_S, isolation_level=None)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        if not (folder / "made").exists():
            folder.mkdir(exist_ok=True)
            make(folder)
            (folder / "made").touch()
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and the wheel from it."""

    def make(out: Path) -> None:
        run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT, cwd=out)

    return made_once(tmp_path_factory, "dist", make)


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel in a new environment and return the folder with its commands.

    Dependencies come from the running environment, on the path after the new one's own packages.
    """
    commands = "Scripts" if os.name == "nt" else "bin"

    def make(folder: Path) -> None:
        run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
        (wheel,) = built.glob("*.whl")
        python = folder / commands / "python"
        run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=folder)
        site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder)
        (Path(site.strip()) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    return made_once(tmp_path_factory, "venv", make) / commands


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A project with modules named like ours, like our dependencies and like the standard library."""
    (tmp_path / "dataclasses.py").write_text(TRAP)
    for name in TRAPS:
        written(tmp_path / name / "__init__.py", TRAP)
    return tmp_path


def test_the_sdist_holds_the_code_and_no_development_files(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    code = {"server/cli/main.py", "tools/learn/learn.py", "schema/memory.py"}
    assert {*code, "README.md", "LICENSE", "pyproject.toml"} <= names
    assert not any(name.startswith(("benchmarks/", "scripts/", ".venv", ".swarm")) for name in names)


def test_the_wheel_holds_one_package_with_its_data_and_its_command(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry,) = [name for name in names if name.endswith("entry_points.txt")]
        assert "swarm-memory = swarm_memory.server.console_script:main" in archive.read(entry).decode()
        readme = archive.read(entry.replace("entry_points.txt", "METADATA")).decode()
        assert "](https://" in readme
        assert re.findall(r"\]\((?!https://|#)[^)]*\)", readme) == [], "PyPI knows no other files"
    tops = {name.partition("/")[0] for name in names}
    assert all(top == "swarm_memory" or top.endswith(".dist-info") for top in tops)
    for needed in ("server/py.typed", "server/embedding/data/", "server/cli/demo/session.jsonl", "schema/sqlite/"):
        assert any(name.startswith(f"swarm_memory/{needed}") for name in names), needed
    assert not any("__pycache__" in name or name.endswith(".pyc") for name in names)
    repository_only = ("check.py", "task.md", "/world/", "benchmarks/", "closed_loop")
    assert not [name for name in names if any(part in name for part in repository_only)]
    assert wheel.stat().st_size < 30_000_000


def test_the_installed_command_works_where_the_project_shadows_every_module(installed: Path, hostile: Path) -> None:
    assert run(installed / "swarm-memory", "--version", cwd=hostile).startswith("swarm-memory, version ")
    findings = json.loads(run(installed / "swarm-memory", "doctor", "--json", cwd=hostile))
    home = next(finding["found"] for finding in findings if finding["what"] == "swarm-memory")
    assert str(installed.parent) in home
    assert not [finding for finding in findings if finding["state"] == "fail"]


def test_the_command_that_shared_settings_name_works_where_pythonpath_leads_to_the_projects_modules(
    installed: Path, hostile: Path
) -> None:
    shadows = {"PYTHONPATH": f"{hostile}{os.pathsep}"}
    assert run(installed / "swarm-memory", "--version", cwd=hostile, **shadows).startswith("swarm-memory, version ")
    assert run(installed / "swarm-memory", "hook", "session-start", cwd=hostile, **shadows) == ""


def test_a_hook_by_the_command_imports_nothing_of_the_command_line(installed: Path, tmp_path: Path) -> None:
    script, seen = installed / "swarm-memory", {"PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run(
        [script, "hook", "x"], cwd=tmp_path, env=os.environ | seen, stdin=subprocess.DEVNULL, capture_output=True
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert "swarm_memory.server.hooks.main" in imported
    assert imported.isdisjoint({"click", "mcp", "pydantic", "numpy", "swarm_memory.server.cli.main"})


COMPLETE = """
{line}
complete -p swarm-memory
COMP_WORDS=(swarm-memory memories quar) COMP_CWORD=2
_swarm_memory_completion swarm-memory
COMP_WORDS=(swarm-memory sources index --kind "") COMP_CWORD=4
_swarm_memory_completion swarm-memory
echo "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_and_values_with_the_line_the_manual_gives(installed: Path, tmp_path: Path) -> None:
    (line,) = re.findall(r"^    (eval .*bash_source.*)$", (ROOT / "docs/MANUAL.md").read_text("utf-8"), re.MULTILINE)
    path = f"{installed}{os.pathsep}{os.environ['PATH']}"
    out = run("bash", "--norc", "-c", COMPLETE.format(line=line), cwd=tmp_path, PATH=path)
    assert out.splitlines() == [
        "complete -o nosort -F _swarm_memory_completion swarm-memory",
        "quarantine tool document code api",
    ]


def test_the_installed_module_works_as_claude_code_starts_it(installed: Path, hostile: Path) -> None:
    text = run(installed / "python", "-I", "-m", "swarm_memory.server.cli", "demo", "--json", cwd=hostile)
    assert "config/test.example.toml" in json.loads(text)["put_into_its_prompt"]
