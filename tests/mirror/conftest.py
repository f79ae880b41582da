"""A real bank in a project of the test's own, and the command line in it."""

from served import connected, fixed, place, settings, toolbox
from shell import project, swarm

__all__ = ["connected", "fixed", "place", "project", "settings", "swarm", "toolbox"]
