"""A bank in a real file, and a way to fill it."""

from still_bank import add, toolbox

__all__ = ["add", "toolbox"]
