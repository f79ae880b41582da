"""Names of folders and variables, as plain strings: all that a hook command needs before it imports anything slow."""

# ruff: noqa: PTH100, PTH109, PTH110, PTH111, PTH117, PTH118, PTH120 - pathlib takes longer to import than all the rest
import os
import sys

ENV_PREFIX = "SWARM_MEMORY_"
"""The prefix of the environment variables that are settings."""

CHILD_VARIABLE = "SWARM_MEMORY_CHILD"
"""Set to 1 for agents that we start ourselves; our hooks do nothing where it is set. It is not a setting."""


def project_root(cwd: str | None = None) -> str:
    """Return the root of the project that contains `cwd` (default: the process's working folder), links unresolved.

    It is CLAUDE_PROJECT_DIR unless `cwd` is given, else the nearest folder upwards with a `.git`, else `cwd`.
    """
    if (given := os.environ.get("CLAUDE_PROJECT_DIR")) and cwd is None:
        return os.path.abspath(given)
    folder = here = os.path.abspath(cwd or os.getcwd())
    while not os.path.exists(os.path.join(folder, ".git")):
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            return here
    return folder


def user_state_folder() -> str:
    """Return the folder for the state of this user's installation, which may not exist. Raises `ConfigError`."""
    named = os.environ.get("XDG_STATE_HOME") or (os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else None)
    if not named or not os.path.isabs(named):
        named = os.path.expanduser("~/.local/state")
        if not os.path.isabs(named):
            raise without_home()
    return os.path.join(named, "swarm-memory")


def without_home() -> Exception:
    """Return the error for a user who has no home folder."""
    from swarm_memory.schema.errors import ConfigError

    return ConfigError("this user has no home folder: set HOME")
