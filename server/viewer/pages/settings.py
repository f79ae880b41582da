"""Settings: each with its value, where it was given, and what it does. Secrets are masked."""

from itertools import groupby

from swarm_memory.schema.settings import Settings
from swarm_memory.server.config import SECTIONS
from swarm_memory.server.viewer.page import Asked, Page, Route


async def settings(asked: Asked) -> Page:
    """List the settings by section, those that were given marked."""
    resolved = asked.settings()
    rows = [(key, value, origin, _meaning(key)) for key, value, origin in resolved.rows()]
    sections = [(name, list(some)) for name, some in groupby(rows, lambda row: row[0].rpartition(".")[0])]
    return Page("settings.html", {"sections": sections, "files": resolved.files})


def _meaning(key: str) -> str:
    """Return what a setting does; empty where its name says it."""
    section, _, name = key.rpartition(".")
    form = SECTIONS[section] if section else Settings
    return form.model_fields[name].description or ""


ROUTES = (Route("/settings", settings, role="admin"),)
