"""The small projects: what they hide, how a session's folder is set up, and whether its task was met."""

import os
import runpy
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1] / "projects"
SESSIONS = ("A", "B", "C")
ARMS = ("none", "rules", "agent", "model")
CHECK_S = 60.0


class Project(NamedTuple):
    """One project of the trial."""

    name: str
    title: str
    kind: str
    half: str
    """`looked` or `unseen`: people who work on the product play only the first half."""
    hidden: str
    needless: tuple[str, ...]
    """The later sessions in which what is hidden does not matter."""
    prompts: dict[str, list[str]]
    """The user's prompts of each session, in their order."""

    @property
    def folder(self) -> Path:
        """The folder with the project's data."""
        return ROOT / self.name


def load(name: str) -> Project:
    """Read a project. Raises `FileNotFoundError`, `KeyError`."""
    said = tomllib.loads((ROOT / name / "project.toml").read_text(encoding="utf-8"))
    keys = {key: said[key] for key in ("title", "kind", "half", "hidden")}
    return Project(name, **keys, needless=tuple(said.get("needless", ())), prompts={s: said[s] for s in SESSIONS})


def names() -> list[str]:
    """Return the names of all projects."""
    return sorted(path.parent.name for path in ROOT.glob("*/project.toml"))


class Place(NamedTuple):
    """Where a session is played: a home folder that holds the project, and next to it what the player does not see."""

    folder: Path
    project: str

    @property
    def home(self) -> Path:
        """The user's home."""
        return self.folder / "home"

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self.home / self.project

    def environment(self) -> dict[str, str]:
        """Return the environment of the user's shell, with none of our variables."""
        path = os.pathsep.join([str(self.home / "bin"), "/usr/local/bin", "/usr/bin", "/bin"])
        return {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", "TERM": "dumb", "PYTHONDONTWRITEBYTECODE": "1"}


def lay_out(project: Project, session: str, folder: Path) -> Place:
    """Make a fresh folder with the project as the session finds it. Raises `FileExistsError`."""
    place = Place(folder, project.name)
    folder.mkdir(parents=True)
    (place.home / "bin").mkdir(parents=True)
    if (project.folder / "home").is_dir():
        shutil.copytree(project.folder / "home", place.home, dirs_exist_ok=True)
    for source in sorted((project.folder / "tools").glob("*.py")):
        _install(source, place.home / "bin" / source.stem)
    (place.home / ".gitconfig").write_text(
        "[user]\n\tname = The team\n\temail = team@example.org\n[init]\n\tdefaultBranch = main\n", encoding="utf-8"
    )
    place.root.mkdir()
    _git(place, "init", "-q")
    states = [("files", "First version"), ("later", "What came since")]
    for state, message in states[: 1 if session == "A" else 2]:
        if (project.folder / state).is_dir():
            shutil.copytree(project.folder / state, place.root, dirs_exist_ok=True)
            _git(place, "add", "-A")
            _git(place, "commit", "-qm", message)
    hooks = project.folder / "githooks"
    if hooks.is_dir():
        shutil.copytree(hooks, place.root / ".git" / "hooks", dirs_exist_ok=True)
    return place


def _install(source: Path, target: Path) -> None:
    """Install a private tool that runs but does not reveal its source at a glance."""
    with target.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(source, "__main__.py")
    target.chmod(0o755)


def _git(place: Place, *words: str) -> None:
    date = {"GIT_AUTHOR_DATE": "2026-03-02T09:00:00Z", "GIT_COMMITTER_DATE": "2026-03-02T09:00:00Z"}
    subprocess.run(["git", *words], cwd=place.root, env=place.environment() | date, check=True)


class Done(NamedTuple):
    """What a project's check examines: the folders as they were left, and everything that the player answered."""

    place: Place
    answer: str

    def run(self, command: str) -> str:
        """Run a command in the project's folder; return its output, with "exit N" at the end."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.place.root,
            env=self.place.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=CHECK_S,
        )
        return f"{done.stdout}exit {done.returncode}"

    def read(self, name: str) -> str:
        """Return the text of a project's file; empty if there is no such file."""
        path = self.place.root / name
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def log(self, tool: str) -> list[str]:
        """Return the lines in which a private tool logged its uses."""
        path = self.place.home / ".local" / "state" / tool / "log"
        return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def unmet(project: Project, session: str, place: Place, answer: str) -> str:
    """Return why a session's task was not met; empty when it was."""
    checks: dict[str, Any] = runpy.run_path(str(project.folder / "check.py"))
    try:
        checks[session.lower()](Done(place, answer))
    except AssertionError as error:
        return str(error) or "not met"
    return ""
