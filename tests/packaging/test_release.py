"""The files by which the project is found and installed agree; benchmarks and scripts import only what exists."""

import ast
import importlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import release
import weigh
from made_files import written

REPOSITORY = Path(__file__).resolve().parents[2]
HOOK = REPOSITORY / "scripts" / "plugin_hook.sh"


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with copies of the files that name the repository."""
    for path in [*release.naming_files()]:
        copy = tmp_path / path.relative_to(REPOSITORY)
        written(copy, path.read_bytes())
    monkeypatch.setattr(release, "ROOT", tmp_path)
    return tmp_path


def test_every_place_says_the_version_and_the_repository_of_pyproject() -> None:
    assert release.faults(release.project()) == []


def named() -> release.Project:
    """Set the repository's name, and write every file that depends on it."""
    release.name_repository("a-person/swarm-memory")
    ours = release.project()
    for path, text in release.written(ours).items():
        path.write_text(text, "utf-8")
    return ours


def test_the_repository_is_said_once_and_then_stands_everywhere(copied: Path) -> None:
    ours = named()
    assert (ours.repository, ours.registered) == ("a-person/swarm-memory", "io.github.a-person/swarm-memory")
    assert release.faults(ours) == []
    assert "owner--not-set/" not in "".join(path.read_text("utf-8") for path in release.naming_files())


def test_a_place_that_differs_is_named(copied: Path) -> None:
    (copied / "server.json").write_text((copied / "server.json").read_text("utf-8").replace("0.1.0", "0.0.9"))
    (copied / "SECURITY.md").write_text("https://github.com/somebody-else/swarm-memory/issues")
    said = "\n".join(release.faults(release.project()))
    assert "server.json is not what pyproject.toml makes of it" in said
    assert "SECURITY.md names another repository: somebody-else/swarm-memory" in said


def test_nothing_is_published_before_the_repository_the_version_and_the_changes_are_said(copied: Path) -> None:
    found = release.hindrances(release.project(), "v9.9.9")
    assert [text.split(":")[0] for text in found] == [
        "the repository is not said",
        f"the tag v9.9.9 is not that of version {release.project().version} in pyproject.toml",
        f"CHANGELOG.md has no heading '## {release.project().version}' alone",
    ]
    ours = named()
    (copied / "CHANGELOG.md").write_text(f"# Changelog\n\n## {ours.version}\n", "utf-8")
    assert release.hindrances(ours, f"v{ours.version}") == []


def test_the_bundle_holds_the_code_and_starts_it_by_uv_on_a_bank_that_the_user_names(tmp_path: Path) -> None:
    release.lay_bundle(tmp_path / "bundle", release.project())
    names = {path.name for path in (tmp_path / "bundle").iterdir()}
    assert names == {*release.BUNDLED, "manifest.json"}
    manifest = release.manifest(release.project())
    assert (tmp_path / "bundle" / manifest["server"]["entry_point"]).is_file()
    assert set(manifest["user_config"]) == {"folder"}
    assert manifest["server"]["mcp_config"]["env"]["SWARM_MEMORY_DB"] == "${user_config.folder}/memory.db"


@pytest.mark.skipif(os.name != "posix", reason="the plugin's hooks are run by sh")
@pytest.mark.parametrize(("verb", "said"), [("session-start", "needs uv"), ("prompt", "")])
def test_a_hook_of_the_plugin_says_once_a_session_what_is_missing_and_blocks_nothing(
    tmp_path: Path, verb: str, said: str
) -> None:
    environ = {"PATH": str(tmp_path), "CLAUDE_PLUGIN_DATA": str(tmp_path / "data")}
    done = subprocess.run(["/bin/sh", str(HOOK), verb], env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout
    assert bool(done.stdout) == bool(said)


def test_an_installation_stays_within_250_mb_and_what_is_heavy_in_it_is_named() -> None:
    found = weigh.weights()
    page = (REPOSITORY / "CONTRIBUTING.md").read_text("utf-8")
    assert sum(found.values()) <= weigh.MOST_MB
    assert [name for name, weight in found.items() if weight >= weigh.HEAVY_MB + 1 and f"| {name} |" not in page] == []


PROGRAMS = sorted(path for folder in ("benchmarks", "scripts") for path in (REPOSITORY / folder).rglob("*.py"))


def imports_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield (module, name) of each runtime import from the package; those in a `try` are optional and skipped."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Try) or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("swarm_memory"):
            yield from ((str(node.module), alias.name) for alias in node.names)
        yield from imports_of(node)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_what_a_program_imports_is_there(program: Path) -> None:
    for module, name in imports_of(ast.parse(program.read_text("utf-8"))):
        if not hasattr(importlib.import_module(module), name):
            importlib.import_module(f"{module}.{name}")
