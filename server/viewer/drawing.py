"""How pages are rendered: templates in which every text is escaped, with a few words for numbers and times."""

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from swarm_memory.schema.base import counted
from swarm_memory.tools.text.cleaning import clean, one_line

MAX_TEXT = 8000
"""Of one text of a task; the middle of a longer one is left out."""


def environment(base: str, versions: Mapping[str, str], now: Callable[[], datetime]) -> Environment:
    """Return what renders templates: every text is escaped, and rid of what turns it around or hides in it."""
    made = Environment(
        loader=PackageLoader("swarm_memory.server.viewer"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
        auto_reload=False,
    )
    shared: dict[str, Any] = made.globals
    shared["base"] = base
    shared["static"] = {name: f"{base}/static/{version}/{name}" for name, version in versions.items()}
    filters: dict[str, Any] = made.filters
    filters["ago"] = partial(_ago, now)
    filters["counted"] = counted
    filters["prose"] = prose
    filters["one_line"] = one_line
    filters["cut"] = partial(clean, max_chars=MAX_TEXT)
    filters["address"] = _address
    return made


def _shown(value: object) -> object:
    if value is None:
        return ""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _ago(now: Callable[[], datetime], at: datetime) -> str:
    """Return how long ago a moment was, in the greatest unit that fits: `3 days ago`."""
    seconds = (now() - at).total_seconds()
    if seconds < 60:
        return "just now"
    for unit, length in (("year", 31_557_600), ("month", 2_629_800), ("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return f"{counted(int(seconds // length), unit)} ago"
    raise AssertionError


def prose(text: str) -> Markup:
    """Return a text with what is in backticks as code."""
    parts = clean(text).split("`")
    if len(parts) % 2 == 0:  # the last one is open
        parts[-2:] = ["`".join(parts[-2:])]
    return Markup().join(
        Markup("<code>{}</code>").format(part) if number % 2 else part for number, part in enumerate(parts)
    )


def _address(values: Mapping[str, object]) -> str:
    """Return the query of an address; what is empty is left out."""
    return urlencode({name: str(value) for name, value in values.items() if value})


def version_of(data: bytes) -> str:
    """Return what changes with the data: part of an address, or a tag."""
    return hashlib.sha256(data).hexdigest()[:16]
