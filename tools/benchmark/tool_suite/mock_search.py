"""Three mock search tools: whether a call succeeds and whether its results fit is drawn for that call alone.

The generator of a call is seeded by the hash of the run's seed, the epoch, the phase, the question and the tool: no
call has any bearing on another one, and a run can be made again. Outputs look like those of a search and never speak
of quality.
"""

import hashlib
from random import Random
from typing import NamedTuple

from swarm_memory.tools.benchmark.tool_suite.profile import PROFILES
from swarm_memory.tools.benchmark.tool_suite.queries import Asked

BUSY = "Error: Service busy, please try again later"

_SITES = ("reference.example", "answers.example", "library.example", "journal.example", "handbook.example")
_ABOUT = (
    "{question} What is known about it, with sources and figures.",
    "An article that answers: {question} It begins with a short overview.",
    "Readers asked: {question} Here is the reply, and what it rests on.",
    "{question} A page that goes through it point by point.",
)
_ELSEWHERE = (
    ("Opening hours of the municipal swimming pool", "Lanes are free before nine; the sauna is closed on Mondays."),
    ("Recipe for a quick lentil soup", "Simmer red lentils with cumin and lemon; serve with flat bread."),
    ("Used bicycles near you", "Nine offers, from city bikes to a child's trailer; prices are negotiable."),
    ("Ten names for a grey cat", "Ash, Pebble, Smoke, Slate: our visitors voted for their favourites."),
    ("Season ticket renewal form", "Log in with your customer number; the deadline is at the end of June."),
    ("How we repainted our garden shed", "Sanding took a weekend; two coats of linseed paint did the rest."),
    ("Weekend forecast for the northern coast", "Gusty with showers, brighter towards Sunday evening."),
    ("Lost luggage: whom to call", "Keep the receipt from the counter and note the number of the tag."),
)


class SearchAnswer(NamedTuple):
    """What one call of a mock tool gave."""

    output: str
    success: bool
    relevant: bool
    """What nobody is told: whether it succeeded, and its results are about the question."""
    time_cost_s: float


def search(seed: int, epoch: int, phase: str, asked: Asked, tool: str) -> SearchAnswer:
    """Call a tool with a question and nothing else."""
    drawn = Random(_seed(seed, epoch, phase, asked.text, tool))
    profile = PROFILES[tool][asked.level]
    took = round(drawn.uniform(0.2, 0.6), 3)
    if drawn.random() >= profile.success:
        return SearchAnswer(BUSY, success=False, relevant=False, time_cost_s=took)
    relevant = drawn.random() < profile.relevance
    return SearchAnswer(_results(drawn, asked.text if relevant else None), True, relevant, took)


def _results(drawn: Random, question: str | None) -> str:
    """Return three results: about the question, or about other things."""
    sites = drawn.sample(_SITES, 3)
    if question is None:
        found = list(drawn.sample(_ELSEWHERE, 3))
    else:
        found = [(question, text.format(question=question)) for text in drawn.sample(_ABOUT, 3)]
    rows = zip(sites, found, strict=True)
    return "\n".join(f"{at}. {title} - {site}\n   {text}" for at, (site, (title, text)) in enumerate(rows, start=1))


def _seed(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()[:8])
