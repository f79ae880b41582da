"""The second stage of a search of sources: the index's best in their final order, by whichever reranker there is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swarm_memory.schema.base import Scope
from swarm_memory.schema.source import SourceHit, SourceKind
from swarm_memory.tools.retrieve.rerank import TOOLS, candidates_of, final_order, find_reranker
from swarm_memory.tools.toolbox import Toolbox

CALLED: frozenset[SourceKind | None] = frozenset({"tool", "api"})
"""What an agent calls: a chat model is asked about these alone, it would have to read too much of the others."""

RERANKED, RERANK_TIMEOUT_S = 20, 20.0
"""So many of the index's best are given to the reranker, and so long it may take."""

EXPERIENCE = "experience"
EXPERIENCE_SPAN = 0.03
"""Experience moves a tool by at most so much up or down: it decides between those that fit equally well."""


@dataclass(frozen=True, slots=True)
class Reranked:
    """The hits in their final order, who put them there, and what went wrong."""

    hits: list[SourceHit]
    reranker: str | None
    notices: tuple[str, ...] = ()


async def rerank(toolbox: Toolbox, query: str, hits: Sequence[SourceHit], kind: SourceKind | None) -> Reranked:
    """Put the first hits, at most `RERANKED`, into their final order; the others follow as they were.

    A reranker that fails leaves the order as it is and is told. Without one, experience with tools breaks ties.
    """
    settings = toolbox.settings.sources
    setting = ("sources.reranker", settings.reranker)
    reranker, notices = find_reranker(toolbox, setting, TOOLS, RERANK_TIMEOUT_S, may_chat=kind in CALLED)
    if len(hits) < 2:
        return Reranked([*hits], None, notices)
    if reranker is None:
        if settings.reranker in ("auto", "experience") and kind in (None, "tool"):
            return await _by_experience(toolbox, hits, notices)
        return Reranked([*hits], None, notices)
    top = hits[:RERANKED]
    passages = [hit.passage for hit in top]
    shown = [(each.title, each.group, f"{each.description}\n{each.content}".strip("\n")) for each in passages]
    done = await final_order(reranker, query, candidates_of(shown), RERANK_TIMEOUT_S)
    order = [
        top[each.place].model_copy(update={"rerank_score": each.score, "justification": each.justification})
        for each in done.ranked
    ]
    judged = {each.place for each in done.ranked}
    rest = [hit for place, hit in enumerate(hits) if place not in judged]
    return Reranked([*order, *rest], done.reranker, (*notices, *done.notices))


async def _by_experience(toolbox: Toolbox, hits: Sequence[SourceHit], notices: tuple[str, ...]) -> Reranked:
    """Move each tool that was called before by what came of it; nothing is known of the others."""
    known = await experience(toolbox, [name for hit in hits for name in _called(hit)])
    if not known:
        return Reranked([*hits], None, notices)

    def moved(hit: SourceHit) -> float:
        shares = [known[name] for name in _called(hit) if name in known]
        return hit.score + (EXPERIENCE_SPAN * (2 * shares[0] - 1) if shares else 0.0)

    return Reranked(sorted(hits, key=moved, reverse=True), EXPERIENCE, notices)


def _called(hit: SourceHit) -> tuple[str, ...]:
    """Return the names that calls of a tool are logged by: hosts put the server before it."""
    if hit.passage.kind != "tool":
        return ()
    return f"mcp__{hit.passage.group}__{hit.passage.title}", hit.passage.title


async def experience(toolbox: Toolbox, tools: Sequence[str]) -> Mapping[str, float]:
    """Return the smoothed share 0…1 of calls that were good, (good + 1) / (calls + 2), of tools that were ever called.

    Good is what the evaluation says, and without any what the host reported.
    """
    scope: Scope = toolbox.scope
    memories = await toolbox.store.tool_memory.memories(scope, list(dict.fromkeys(tools))) if tools else []
    shares: dict[str, float] = {}
    for totals in (each.totals for each in memories):
        good, calls = (totals.good, totals.evaluated) if totals.evaluated else (totals.succeeded, totals.calls)
        if calls:
            shares[totals.tool_name] = (good + 1) / (calls + 2)
    return shares
