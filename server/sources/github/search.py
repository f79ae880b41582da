"""GitHub's own code search within one repository: path, address and SHA of the files that it finds."""

import re
import time
from typing import Any, cast

from pydantic import JsonValue

from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.source import Passage, SourceHit, SourceSearch
from swarm_memory.server.sources.github.client import MATCHES_FORM, TOKEN_VARIABLES, GitHub
from swarm_memory.server.sources.github.repository import Repository
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.text.cleaning import clean

MAX_QUERY_CHARS = 200
MAX_HITS = 10
MAX_FRAGMENT_CHARS = 2_000

_ELSEWHERE = re.compile(r"(?i)(?<!\S)-?(?:repo|org|user|enterprise):\S*")
"""Qualifiers that would search elsewhere."""


async def search_code(github: GitHub, which: Repository, query: str, project: str) -> SourceSearch:
    """Return what GitHub finds for a query in a repository, on its default branch.

    Secrets in the query are replaced. Raises `ConfigError` without a token, `InputError` for an empty query, and as
    `GitHub.get`.
    """
    began = time.perf_counter()
    words = " ".join(_ELSEWHERE.sub(" ", redact(clean(query[:2_000])).text).split())[:MAX_QUERY_CHARS]
    if not words:
        raise InputError("query is empty: say in a few words what is wanted")
    if not github.has_token:
        raise ConfigError(f"GitHub searches code for nobody without a token: set {' or '.join(TOKEN_VARIABLES)}")
    asked = {"q": f"{words} repo:{which.full_name}", "per_page": MAX_HITS}
    answer: Any = (await github.get("/search/code", asked, form=MATCHES_FORM)).json
    items = cast("dict[str, Any]", answer).get("items") if isinstance(answer, dict) else None
    found = [_hit(each, which, project) for each in (cast("list[Any]", items) if isinstance(items, list) else [])]
    hits = tuple(hit for hit in found if hit is not None)[:MAX_HITS]
    notices = (f"GitHub searches the default branch, not {which.ref}",) if which.ref else ()
    return SourceSearch(
        hits=hits,
        offset=0,
        more=False,
        passages=len(hits),
        reason=None if hits else f"GitHub's code search found nothing in {which.full_name}",
        legs=(),
        embedder="none: GitHub's own code search",
        notices=notices,
        latency_ms=(time.perf_counter() - began) * 1000,
    )


def _hit(item: Any, which: Repository, project: str) -> SourceHit | None:
    """Return a file that was found; None for one of another repository, or without a path."""
    told = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
    repository: Any = told.get("repository")
    named = str(cast("dict[str, Any]", repository).get("full_name")) if isinstance(repository, dict) else ""
    path, matches = told.get("path"), told.get("text_matches")
    if not isinstance(path, str) or not 0 < len(path) <= 1000 or named.lower() != which.full_name.lower():
        return None
    fragments = [
        str(cast("dict[str, Any]", each).get("fragment", ""))[:MAX_FRAGMENT_CHARS]
        for each in (cast("list[Any]", matches)[:5] if isinstance(matches, list) else [])
        if isinstance(each, dict)
    ]
    content = redact(clean("\n…\n".join(fragments))).text
    data: dict[str, JsonValue] = {"url": str(told.get("html_url", ""))[:2_000], "sha": str(told.get("sha", ""))[:64]}
    passage = Passage(kind="github", group=path, position=0, title=path, content=content, path=path, data=data)
    score = told.get("score")
    shown = float(score) if isinstance(score, int | float) and not isinstance(score, bool) else 1.0
    return SourceHit(passage=passage, location=which.location, project=project, score=shown)
