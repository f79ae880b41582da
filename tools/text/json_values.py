"""JSON that stands in a text."""

import json
from typing import cast


def json_in(text: str) -> object:
    """Return the JSON value that a text is; None where it is none, or is nested too deeply."""
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError):
        return None
