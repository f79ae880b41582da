"""A bank in a real file."""

from still_bank import toolbox

__all__ = ["toolbox"]
