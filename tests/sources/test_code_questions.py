"""Code in the bank: what comes before what."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swarm_memory.server.sources.code import read_code
from swarm_memory.tools.ports.sources import ReadGroup
from swarm_memory.tools.sources.sources import index_source, search_sources
from swarm_memory.tools.toolbox import Toolbox


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
