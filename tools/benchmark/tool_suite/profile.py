"""How good each mock search tool is at each level: the table that ReMe published. It draws nothing.

The document of that benchmark prints the success alone; the published code has the same number for relevance.
"""

from typing import Literal, NamedTuple

Level = Literal["simple", "moderate", "complex"]
LEVELS: tuple[Level, ...] = ("simple", "moderate", "complex")

TOOLS = ("SearchToolA", "SearchToolB", "SearchToolC")
DESCRIPTION = "Searches the web for a question and returns the results as text."
"""Of every one of them: a description must not tell what is to be found out."""


class Profile(NamedTuple):
    """Probabilities of one call."""

    success: float
    """It answers, and does not say that it is busy."""
    relevance: float
    """An answer is about the question."""

    @property
    def useful(self) -> float:
        """It answers, and what it says is about the question."""
        return self.success * self.relevance


PROFILES: dict[str, dict[Level, Profile]] = {
    "SearchToolA": {"simple": Profile(0.9, 0.9), "moderate": Profile(0.2, 0.2), "complex": Profile(0.5, 0.5)},
    "SearchToolB": {"simple": Profile(0.3, 0.3), "moderate": Profile(0.9, 0.9), "complex": Profile(0.5, 0.5)},
    "SearchToolC": {"simple": Profile(0.3, 0.3), "moderate": Profile(0.4, 0.4), "complex": Profile(0.9, 0.9)},
}


def best_tool(level: Level) -> str:
    """Return the tool that is most often of use at a level."""
    return max(TOOLS, key=lambda tool: PROFILES[tool][level].useful)


def expected(level: Level, tool: str | None = None) -> float:
    """Return how often a tool is of use at a level; without one, a tool that is drawn blindly."""
    if tool is not None:
        return PROFILES[tool][level].useful
    return sum(PROFILES[each][level].useful for each in TOOLS) / len(TOOLS)
