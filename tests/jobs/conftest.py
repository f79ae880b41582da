"""A real bank in a project of the test's own."""

from served import connected, fixed, place, settings, toolbox

__all__ = ["connected", "fixed", "place", "settings", "toolbox"]
