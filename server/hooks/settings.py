"""The settings that the light hooks need; where nobody set anything they are known without reading."""

import os
from pathlib import Path
from typing import NamedTuple

from swarm_memory.server.folders import CHILD_VARIABLE, ENV_PREFIX
from swarm_memory.server.location import project_file, user_file
from swarm_memory.server.switch import DISABLED

DATABASE, SQLITE = "SWARM_MEMORY_DB", "SWARM_MEMORY_SQLITE"

_EMBEDDING = f"{ENV_PREFIX}EMBEDDING__"
"""How variables begin that say nothing to a light hook."""

MAX_ANSWER_BYTES = 64
ANSWERS = {f"chat: {{learn_with: {way}}}\n".encode(): way for way in ("rules", "claude", "agent")}
"""The user's settings file where it holds no more than what `install` wrote: it is known without a reader of YAML."""


class LightSettings(NamedTuple):
    """Of `schema.settings` what a hook needs that does without pydantic; the defaults are the same."""

    enabled: bool = True
    db: str | None = None
    is_remote: bool = False
    """Whether a database server holds the bank; a hook asks it nothing."""
    tenant_id: str = "default"
    project: str | None = None
    briefing_items: int = 10
    inject: bool = True
    settle_s: float = 20.0
    holdout_rate: float = 0.0
    holdout_seed: int = 0
    asks_model: bool = False
    """Whether a model may be asked about finished tasks."""
    asks_agent: bool = False
    """Whether the agent that did a task is asked."""


def light_settings(root: Path) -> LightSettings:
    """Return the settings in force in a project, read by `server.config` where anything is set.

    Importing that takes longer than all the rest of a light hook. Raises `ConfigError`.
    """
    if (way := _sole_answer(root)) is not None:
        database = os.environ.get(DATABASE) or None
        return LightSettings(db=database, asks_model=way == "claude", asks_agent=way == "agent")
    from swarm_memory.server.config import resolve_settings

    found = resolve_settings(root).settings
    return LightSettings(
        enabled=found.enabled,
        db=found.storage.db,
        is_remote=found.storage.url is not None,
        tenant_id=found.storage.tenant_id,
        project=found.storage.project,
        briefing_items=found.hooks.briefing_items,
        inject=found.hooks.inject,
        settle_s=found.hooks.settle_s,
        holdout_rate=found.credit.holdout_rate,
        holdout_seed=found.credit.holdout_seed,
        asks_model=bool(found.chat.learning),
        asks_agent=found.chat.learn_with == "agent",
    )


def _sole_answer(root: Path) -> str | None:
    """Return who learns where nothing else is set, "" where nothing is at all; None: there is more to be read."""
    plain = {DATABASE, SQLITE, CHILD_VARIABLE, DISABLED}
    given = [name for name in os.environ if name.upper().startswith(ENV_PREFIX) and os.environ[name]]
    if any(name not in plain and not name.upper().startswith(_EMBEDDING) for name in given):
        return None
    own = user_file(os.environ)
    if os.path.lexists(project_file(root)):
        return None
    if not os.path.lexists(own):
        return ""
    return ANSWERS.get(own.read_bytes()) if own.is_file() and own.stat().st_size < MAX_ANSWER_BYTES else None
