"""The switch that turns swarm-memory off in a project, or everywhere: an environment variable, or `pause`.

The setting `enabled` is the third way.
"""

import os
from pathlib import Path

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.location import state_folder, write_private

DISABLED = "SWARM_MEMORY_DISABLED"
_NO = ("", "0", "false", "no", "off")
"""Values of the variable that switch nothing off; any other value does."""

EVERYWHERE = "*"
MAX_CHARS = 1_000_000


def switched_off(root: Path) -> str | None:
    """Return what switches a project off; None where it is on. Raises `ConfigError`."""
    if os.environ.get(DISABLED, "").strip().lower() not in _NO:
        return f"the environment ({DISABLED})"
    named = _paused()
    if EVERYWHERE in named:
        return "`swarm-memory pause --everywhere`"
    return "`swarm-memory pause`" if named and _name(root) in named else None


def off_by(root: Path, enabled: bool) -> str | None:
    """Return what switches a project off, its setting `enabled` included; None where it is on. Raises `ConfigError`."""
    return switched_off(root) or (None if enabled else "the setting `enabled`")


def pause(root: Path | None) -> bool:
    """Pause a project, or with None all; return False if it was paused already. Raises `ConfigError`, `OSError`."""
    named, name = _paused(), _name(root)
    if name in named:
        return False
    _write([*named, name])
    return True


def resume(root: Path | None) -> bool:
    """End a project's pause, or with None all; return whether there was one. Raises `ConfigError`, `OSError`."""
    named = _paused()
    left = [] if root is None else [each for each in named if each != _name(root)]
    if left == named:
        return False
    _write(left)
    return True


def _name(root: Path | None) -> str:
    return EVERYWHERE if root is None else os.path.realpath(root)


def _file() -> Path:
    return state_folder() / "paused"


def _paused() -> list[str]:
    file = _file()
    try:
        with file.open(encoding="utf-8", errors="surrogateescape") as opened:
            return [name for name in opened.read(MAX_CHARS).split("\0") if name]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}; delete it to switch everything on") from error


def _write(names: list[str]) -> None:
    write_private(_file(), "".join(f"{name}\0" for name in names))
