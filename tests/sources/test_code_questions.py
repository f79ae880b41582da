"""The code of this repository: a newcomer's questions, and the function that answers each among the first five."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swarm_memory.server.sources.code import read_code
from swarm_memory.tools.ports.sources import ReadGroup
from swarm_memory.tools.sources import sources
from swarm_memory.tools.sources.sources import index_source, search_sources
from swarm_memory.tools.toolbox import Toolbox

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("server/", "tools/", "schema/", "benchmarks/", "scripts/")

QUESTIONS = {
    "where is a duplicate memory decided?": {"find_duplicates", "is_same"},
    "how does the server stop when its parent dies?": {"_watch_parent"},
    "how are secrets taken out of text before it is stored?": {"redact"},
    "how is the confidence of a memory changed after a task succeeds or fails?": {"change_for", "credited"},
    "where are keyword and vector scores fused?": {"_fused", "convex_fusion", "scaled_fusion", "score_passages"},
    "what decides whether a task is held out and gets no memories?": {"is_held_out"},
    "how are the hooks written into Claude Code's settings file?": {
        "InstalledHost.plan_install",
        "InstalledHost.hook_entries",
    },
    "which code judges a trajectory without a model?": {"judge_by_evidence"},
    "how does a worker take a job from the queue?": {"Jobs.claim"},
    "where is text split into tokens for the keyword index?": {"tokenize"},
    "how is the writer lock of the database held across processes?": {"writer_lock"},
    "how is one embedding computed from the static table?": {"StaticEmbedder.embed", "StaticEmbedder._alone"},
    "what turns a Claude Code transcript into a trajectory?": {"read_session", "read_trajectories"},
}


async def test_at_least_ten_questions_find_their_function_among_the_first_five(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "EMBEDDING_S", 600.0)  # a busy machine leaves none of it to a job

    async def groups() -> AsyncIterator[ReadGroup]:
        for group in read_code(ROOT, allows=lambda path: path.startswith(FOLDERS)):
            yield group

    done = await index_source(toolbox, "code", str(ROOT), groups())
    assert not done.faults
    missed: dict[str, list[str]] = {}
    for question, right in QUESTIONS.items():
        found = await search_sources(toolbox, question, kind="code", k=5)
        titles = [hit.passage.title for hit in found.hits]
        if not right.intersection(titles):
            missed[question] = titles
    assert len(QUESTIONS) - len(missed) >= 10, missed
