"""Which command lines a rollout may run, and what it finds in its environment; it runs nothing."""

import shlex
from collections.abc import Mapping

from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.rollout import RolloutRequest
from swarm_memory.schema.settings import MattsSettings
from swarm_memory.server.child_process import OUTER_SESSION
from swarm_memory.server.config import CHILD_VARIABLE, ENV_PREFIX
from swarm_memory.tools.text.cleaning import one_line


def allowed_commands(settings: MattsSettings) -> tuple[tuple[str, ...], ...]:
    """Return the command lines that the user allows, each as its words. Raises `ConfigError` for one without end."""
    lines = settings.allowed_commands.replace(";;", "\n").splitlines()
    return tuple(_words(line, "matts.allowed_commands") for line in lines if line.strip())


def _words(line: str, where: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise ConfigError(f"{where}: {line.strip()!r} is no command line ({error})") from error


def permitted(line: str, settings: MattsSettings) -> tuple[str, ...]:
    """Return the words of a command line. Raises `ConfigError` unless the user allows exactly this one."""
    words = _words(line, "the command")
    if not words:
        raise InputError("command is empty: give the agent's command line")
    if words not in allowed_commands(settings):
        raise ConfigError(
            f"the command `{one_line(line, 120)}` is not allowed: add exactly this line to matts.allowed_commands in "
            "your own settings file (a project's file cannot)"
        )
    return words


def child_environment(environ: Mapping[str, str], request: RolloutRequest) -> dict[str, str]:
    """Return the user's environment; what belongs to an outer session, and our own settings, are not for a rollout."""
    kept = {
        name: value
        for name, value in environ.items()
        if name not in OUTER_SESSION and not name.upper().startswith(ENV_PREFIX)
    }
    return kept | {
        CHILD_VARIABLE: "1",
        "MATTS_ROLLOUT": str(request.number),
        "MATTS_SEED": str(request.seed),
        "MATTS_TEMPERATURE": f"{request.temperature:g}",
        "MATTS_TASK_ID": request.task_id.replace("\0", ""),
    }
