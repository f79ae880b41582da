"""Changes of files that commands plan: shown, asked about, written, and reported."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from swarm_memory.server.cli.console import print_json, say
from swarm_memory.server.config import with_setting
from swarm_memory.server.hosts.settings_files import FileChange, apply
from swarm_memory.server.location import user_file


def carry_out(
    changes: Sequence[FileChange],
    done: str,
    *,
    dry_run: bool,
    as_json: bool,
    asks: bool = False,
    write: Callable[[Sequence[FileChange]], Sequence[Path]] = apply,
    **more: object,
) -> None:
    """Write the changes and say so, or with `dry_run` only show them; with `asks` they are shown and confirmed first.

    `done` is what the files are then, such as `installed`; `more` goes into the answer in JSON. Raises as `write`.
    """
    if (dry_run or asks) and not as_json:
        for change in changes:
            say(change.diff())
    if changes and asks and not dry_run:
        click.confirm("Write this?", abort=True, err=True)
    copies = [str(path) for path in write(changes)] if changes and not dry_run else []
    if as_json:
        files = [{"path": str(change.path), "diff": change.diff()} for change in changes]
        print_json({"status": "planned" if dry_run else done, **more, "files": files, "backups": copies})
        return
    if not changes:
        say(f"Nothing to change: already {done}.")
    for change in () if dry_run else changes:
        say(f"{'Removed' if change.after is None else 'Wrote'} {change.path}")
    for path in copies:
        say(f"Backup: {path}", dim=True)


def planned_setting(key: str, value: str) -> FileChange | None:
    """Return what sets a key in the user's own settings file; None where it is set so already. Raises `ConfigError`."""
    path = user_file(os.environ)
    before = path.read_text(encoding="utf-8") if path.exists() else None
    after = with_setting(before or "", key, value, str(path))
    return None if after == before else FileChange(path, before, after)
