"""Settings: each with its value, where it was given, and what it does. Secrets are masked."""

import ast
import inspect
import sys
from functools import cache
from itertools import groupby, pairwise

from swarm_memory.schema.settings import Settings
from swarm_memory.server.config import SECTIONS
from swarm_memory.server.viewer.page import Asked, Page, Route


async def settings(asked: Asked) -> Page:
    """List the settings by section, those that were given marked."""
    resolved = asked.settings()
    does = meanings()
    rows = [(key, value, origin, does.get(key, "")) for key, value, origin in resolved.rows()]
    sections = [(name, list(some)) for name, some in groupby(rows, lambda row: row[0].rpartition(".")[0])]
    return Page("settings.html", {"sections": sections, "files": resolved.files})


@cache
def meanings() -> dict[str, str]:
    """Return what each setting that says so does, by key: the sentence that stands beneath it in the source."""
    module = ast.parse(inspect.getsource(sys.modules[Settings.__module__]))
    bodies = {each.name: each.body for each in module.body if isinstance(each, ast.ClassDef)}
    found: dict[str, str] = {}
    for section, model in (("", Settings), *SECTIONS.items()):
        body = bodies[model.__name__]
        for field, told in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(told, ast.Expr):
                found[f"{section}.{field.target.id}".strip(".")] = inspect.cleandoc(str(ast.literal_eval(told.value)))
    return found


ROUTES = (Route("/settings", settings, role="admin"),)
