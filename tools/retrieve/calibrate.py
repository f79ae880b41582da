"""Calibrate what retrieval goes by on a bank of the user's own."""

from importlib.resources import files


def foreign_queries() -> tuple[str, ...]:
    """Return queries about what hardly any bank is about: nothing should be found for them."""
    text = files("swarm_memory.tools.retrieve").joinpath("data", "foreign_queries.txt").read_text(encoding="utf-8")
    return tuple(text.splitlines())
