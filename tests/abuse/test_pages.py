"""No text from a bank or a run becomes markup, a script or a request on a page."""

import pytest
from patience import FULL
from served import place, settings

from swarm_memory.schema.settings import Settings
from swarm_memory.server.location import Location
from tests.viewer.browsed import browsing
from tests.viewer.hostile_bank import lay_everywhere
from tests.viewer.payloads import Page, payloads

PAYLOADS = list(payloads())

pytestmark = pytest.mark.attack


__all__ = ["place", "settings"]


async def test_no_text_of_a_bank_becomes_markup_on_any_page(place: Location, settings: Settings) -> None:
    texts = PAYLOADS if FULL else PAYLOADS[::4]
    async with browsing(place, settings) as browser:
        await lay_everywhere(await browser.toolbox(), texts)
        pages = await browser.crawl(at_most=2000 if FULL else 60)
        for text in texts[:3]:
            for path in ("/memories", "/sources", "/ask", "/sessions"):
                answer = await browser.client.get(f"/ui{path}", params={"q": text, "kind": text, "status": text})
                pages[f"{path}?{text}"] = answer.text
    strange = list[str]()
    for path, page in pages.items():
        read = Page()
        read.feed(page)
        strange += [f"{path}: {each}" for each in read.strange]
    shown = sum(page.count("data-owned") for page in pages.values())
    assert shown > len(texts)
    assert strange == []
