"""Code in the bank: what comes before what, and a newcomer's questions to the code of this repository."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swarm_memory.server.sources.code import read_code
from swarm_memory.tools.ports.sources import ReadGroup
from swarm_memory.tools.sources import sources
from swarm_memory.tools.sources.sources import index_source, search_sources
from swarm_memory.tools.toolbox import Toolbox

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("server/", "tools/")

QUESTIONS = {
    "where is a duplicate memory decided?": {"find_duplicates", "is_same"},
    "how does the server stop when its parent dies?": {"_watch_parent"},
    "how are secrets taken out of text before it is stored?": {"redact"},
    "how is the confidence of a memory changed after a task succeeds or fails?": {
        "_credit",
        "credited",
        "record_outcome",
    },
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


async def index(toolbox: Toolbox, root: Path) -> None:
    async def groups() -> AsyncIterator[ReadGroup]:
        for group in read_code(root):
            yield group

    await index_source(toolbox, "code", "shop", groups())


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("where is a negative price refused", "check_price"),
        ("which test shows that a negative price is refused", "test_an_order_with_a_negative_price_is_refused"),
    ],
)
async def test_code_comes_before_its_test_unless_a_test_is_asked_for(
    toolbox: Toolbox, tmp_path: Path, query: str, first: str
) -> None:
    root = tmp_path / "shop"
    (root / "tests").mkdir(parents=True)
    (root / "other.py").write_text(
        "".join(f"def draw_{shape}(canvas): ...\n\n" for shape in ("box", "line", "arc", "text"))
    )
    (root / "orders.py").write_text(
        'def check_price(order):\n    """Refuse an order with a negative price."""\n    raise\n'
    )
    (root / "tests" / "test_orders.py").write_text(
        "def test_an_order_with_a_negative_price_is_refused():\n    assert is_refused(order(-1))\n"
    )
    await index(toolbox, root)
    found = await search_sources(toolbox, query, kind="code", k=2)
    assert found.hits[0].passage.title == first


async def test_a_function_is_found_by_what_its_file_is_for(toolbox: Toolbox, tmp_path: Path) -> None:
    root = tmp_path / "shop"
    root.mkdir()
    (root / "a.py").write_text(
        '"""Currency conversion. It knows no bank."""\n\ndef apply(value, factor):\n    return value * factor\n'
    )
    (root / "b.py").write_text('"""Image thumbnails."""\n\ndef apply(value, factor):\n    return value * factor\n')
    await index(toolbox, root)
    found = await search_sources(toolbox, "convert a currency", kind="code", k=4)
    order = [(hit.passage.path, hit.passage.title) for hit in found.hits]
    assert order.index(("a.py", "apply")) < order.index(("b.py", "apply"))
