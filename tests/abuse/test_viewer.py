"""No text of a bank becomes markup, a script, a link or a request on any page of the viewer."""

from html.parser import HTMLParser

import pytest
from browsed import browsing
from hostile_bank import lay_everywhere
from patience import FULL
from payloads import payloads
from served import place, settings

from swarm_memory.schema.settings import Settings
from swarm_memory.server.location import Location

__all__ = ["place", "settings"]

PAYLOADS = list(payloads())
pytestmark = pytest.mark.attack


class Page(HTMLParser):
    """Collects what a browser could run, load, follow or send."""

    ELEMENTS = frozenset((
        "html", "head", "meta", "title", "link", "script", "body", "a", "header", "p", "strong", "span", "nav",
        "ul", "ol", "li", "form", "input", "button", "main", "div", "h1", "h2", "h3", "h4", "section", "article",
        "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "time", "code", "pre", "details", "summary",
        "label", "select", "option", "textarea", "meter", "progress", "figure", "figcaption", "svg", "path",
        "polyline", "polygon", "circle", "rect", "text", "br", "mark", "ins", "del", "fieldset", "legend", "b", "em",
        "small", "blockquote", "aside",
    ))  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.strange: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.ELEMENTS:
            self.strange.append(tag)
        for name, value in attrs:
            leads = name in ("href", "src", "action", "formaction") and not (value or "").startswith(("/ui", "#"))
            runs = name.startswith("on") or name in ("style", "srcdoc", "srcset", "xlink:href")
            if leads or runs or (tag == "script" and name == "src" and not (value or "").startswith("/ui/static/")):
                self.strange.append(f"{tag} {name}={value}")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script" and data.strip():
            self.strange.append(f"script {data[:80]}")


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
