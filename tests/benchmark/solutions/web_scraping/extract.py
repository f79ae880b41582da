"""Reads all products of a shop."""

import json
import sys
import time
import urllib.error
import urllib.request
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin


class Page(HTMLParser):
    """What stands in a page or a part of one."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[dict[str, str]] = []
        self.parts: list[str] = []
        self.following: str | None = None
        self._field = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if given.get("class") == "product":
            self.products.append({"sku": given["data-sku"], "name": "", "price": ""})
        if "data-src" in given:
            self.parts.append(given["data-src"])
        if given.get("rel") == "next":
            self.following = given["href"]
        self._field = {"h2": "name", "span": "price"}.get(tag, "")

    def handle_endtag(self, tag: str) -> None:
        self._field = ""

    def handle_data(self, data: str) -> None:
        if self._field:
            self.products[-1][self._field] += data


def fetch(url: str) -> Page:
    """Read a page; a busy one is asked for again."""
    for attempt in range(4):
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                page = Page()
                page.feed(answer.read().decode())
                return page
        except urllib.error.HTTPError as error:
            if error.code != 503 or attempt == 3:
                raise
            time.sleep(0.05)
    raise AssertionError


def cents(price: str) -> int:
    """Return a German price in cents."""
    return int("".join(char for char in price if char.isdigit()))


def main(url: str, out: str) -> None:
    """Follow the pages until one comes again."""
    found: dict[str, dict[str, str]] = {}
    seen: set[str] = set()
    following: str | None = url
    while following is not None and following not in seen:
        seen.add(following)
        page = fetch(following)
        for each in (page, *(fetch(urljoin(following, part)) for part in page.parts)):
            found.update({product["sku"]: product for product in each.products})
        following = urljoin(following, page.following) if page.following else None
    rows = [
        {"sku": sku, "name": found[sku]["name"], "price_cents": cents(found[sku]["price"])} for sku in sorted(found)
    ]
    Path(out).write_text(json.dumps(rows), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
