"""Which tool to take for a task, from what happened to similar calls; pure functions over past calls.

Only what was asked of a tool (arguments, task) and how its calls were evaluated counts: no word of any output does.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swarm_memory.schema.tool_memory import Experience
from swarm_memory.tools.ports.tool_memory import PastCall, PastCalls

MIN_FIT = 0.2
"""A call fits a task when they are so alike."""

NEAR_ENOUGH = 0.5
"""The mean likeness of its three nearest fitting calls at which a tool's reach is full."""

NEAREST = 3
BANDWIDTH = 0.35
COVERAGE_SHARE = 0.8
PRIOR_STRENGTH = 2.0
"""How many similar calls the tool's overall rate weighs."""

SHAPE_SHARE = 0.2
"""The share of the likeness that is due to the length: long requests fare otherwise than short ones."""


@dataclass(frozen=True, slots=True)
class Overall:
    """All evaluated calls of a tool, over all time."""

    evaluated: int
    good: int

    @property
    def rate(self) -> float:
        """The share of good ones, smoothed (Laplace): one half for a tool without any."""
        return (self.good + 1) / (self.evaluated + 2)


def rank_tools(tokens: Sequence[str], past: PastCalls, overall: Mapping[str, Overall]) -> list[Experience]:
    """Return the tools with calls that fit the tokens of a task, best first: by reach times expected success.

    A tool's expected success is the mean of a Beta posterior to which each past call adds its kernel weight, as a
    success or a failure (continuous correlated Beta process: Goetschalckx, Poupart and Hoey, IJCAI 2011, eq. 5-6):

        K(s) = exp(-(1 - s)² / 2h²)          s: likeness of call and task, h = 0.35
        a = c·r + sum K(s_i)·y_i,   b = c·(1 - r) + sum K(s_i)·(1 - y_i),   mean = a / (a + b)

    with r the tool's smoothed overall rate and c = 2. Reach is the mean likeness of its three nearest fitting calls
    over 0.5, at most 1. A tool with no call that fits is not ranked: of that there is no experience.
    """
    weights = _idf(tokens, past)
    by_tool: dict[str, list[tuple[float, float]]] = {}
    for call in past.calls:
        by_tool.setdefault(call.tool_name, []).append((likeness(weights, call), call.score))
    ranked = [
        experience
        for tool, found in by_tool.items()
        if (experience := _experience(tool, found, overall.get(tool, Overall(0, 0)))) is not None
    ]
    return sorted(ranked, key=lambda each: (-each.rank, -each.expected_success, each.tool_name))


def likeness(weights: Mapping[str, float], call: PastCall) -> float:
    """Return how alike a task and a past call are, 0…1: the idf-weighted Dice of their tokens, or 0.8 of the share of
    the task's tokens that the call has where that is more; a little less where their lengths differ.

    Tokens that are only the call's have the mean weight of the task's. A call that shares no token has 0.
    """
    own = call.tokens.split()
    shared = sum(weights[token] for token in own if token in weights)
    if not shared:
        return 0.0
    total = sum(weights.values())
    mean = total / len(weights)
    others = sum(token not in weights for token in own) * mean
    dice = 2 * shared / (total + shared + others)
    shape = math.exp(-abs(math.log((len(own) + 1) / (len(weights) + 1))))
    return max(dice, COVERAGE_SHARE * shared / total) * (1 - SHAPE_SHARE + SHAPE_SHARE * shape)


def _idf(tokens: Sequence[str], past: PastCalls) -> dict[str, float]:
    """Return the weights of the task's tokens.

    One that no call has is a name more often than a topic: it weighs as much as the others do on average.
    """
    seen = {
        token: math.log(1 + (past.documents + 1) / (past.document_frequency[token] + 0.5))
        for token in dict.fromkeys(tokens)
        if past.document_frequency.get(token)
    }
    mean = sum(seen.values()) / len(seen) if seen else 1.0
    return {token: seen.get(token, mean) for token in dict.fromkeys(tokens)}


def _experience(tool: str, found: Sequence[tuple[float, float]], overall: Overall) -> Experience | None:
    fitting = sorted((each for each in found if each[0] >= MIN_FIT), reverse=True)
    if not fitting:
        return None
    alpha, beta = PRIOR_STRENGTH * overall.rate, PRIOR_STRENGTH * (1 - overall.rate)
    for alike, score in found:
        weight = math.exp(-((1 - alike) ** 2) / (2 * BANDWIDTH**2))
        alpha += weight * score
        beta += weight * (1 - score)
    mean = alpha / (alpha + beta)
    spread = math.sqrt(alpha * beta / ((alpha + beta) ** 2 * (alpha + beta + 1)))
    nearest = [alike for alike, _ in fitting[:NEAREST]]
    reach = min(1.0, sum(nearest) / len(nearest) / NEAR_ENOUGH)
    return Experience(
        tool_name=tool,
        rank=round(reach * mean, 6),
        expected_success=mean,
        low=max(0.0, mean - 1.645 * spread),
        reach=reach,
        similar=len(fitting),
        similar_good=sum(score >= 1.0 for _, score in fitting),
        overall_n=overall.evaluated,
        overall_good=overall.good,
    )
