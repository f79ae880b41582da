"""Files and Git repositories as tests need them."""

import subprocess
from pathlib import Path

IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "init.defaultBranch=main")


def written(path: Path, data: str | bytes) -> Path:
    """Write a file, creating the folders above it; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def git(folder: Path, *arguments: str) -> None:
    """Run Git in a folder, as a made-up user."""
    subprocess.run(["git", *IDENTITY, *arguments], cwd=folder, check=True, capture_output=True)


def committed(folder: Path) -> Path:
    """Make a repository with an empty first commit; return its folder."""
    folder.mkdir(exist_ok=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder
