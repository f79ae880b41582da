"""A small web shop: pages, parts that load later, and a bad moment now and then."""

import sys
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from urllib.parse import parse_qs, urlsplit

Product = tuple[str, str, int]
"""SKU, name, price in cents."""

PER_PAGE = 6


def products(seed: int, count: int) -> list[Product]:
    """Return made products."""
    drawn = Random(seed)
    names = ("Lamp & shade", "Oak table", 'Frame 12"', "Wool rug", "Desk <small>", "Stool")
    skus = drawn.sample(range(1000, 9999), count)
    return [(f"P-{sku}", drawn.choice(names), drawn.randint(99, 250_000)) for sku in skus]


def price(cents: int) -> str:
    """Return a price as Germans write it."""
    whole = f"{cents // 100:,}".replace(",", ".")
    return f"{whole},{cents % 100:02d} €"


class Shop(ThreadingHTTPServer):
    """Serves products; each part of a page is busy the first time; a broken shop's last part always is."""

    daemon_threads = True

    def __init__(self, port: int, stock: list[Product], *, broken: bool = False) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.stock, self.broken = stock, broken
        self.asked: set[str] = set()
        self.requests = 0

    @property
    def pages(self) -> int:
        """How many there are."""
        return -(-len(self.stock) // PER_PAGE)

    @property
    def url(self) -> str:
        """Where its first page is."""
        return f"http://127.0.0.1:{self.server_port}/"


class _Handler(BaseHTTPRequestHandler):
    @property
    def shop(self) -> Shop:
        assert isinstance(self.server, Shop)
        return self.server

    def do_GET(self) -> None:
        self.shop.requests += 1
        parts = urlsplit(self.path)
        page = int(parse_qs(parts.query).get("page", ["1"])[0])
        if parts.path == "/part":
            is_first = self.path not in self.shop.asked
            self.shop.asked.add(self.path)
            if is_first or (self.shop.broken and page == self.shop.pages):
                self._send(503, "one moment, please")
            else:
                self._send(200, self._items(page)[1])
        elif parts.path == "/" and 1 <= page <= self.shop.pages:
            self._send(200, self._page(page))
        else:
            self._send(404, "no such page")

    def _page(self, page: int) -> str:
        following = min(page + 1, self.shop.pages)  # the last page calls itself the next one
        shown = self._items(page)[0]
        return (
            f"<html><body><ul>{shown}</ul><div class='lazy' data-src='/part?page={page}'></div>"
            f"<a rel='next' href='/?page={following}'>more</a></body></html>"
        )

    def _items(self, page: int) -> tuple[str, str]:
        """Return what stands in the page and what is loaded later; the first of a page was on the one before too."""
        start = (page - 1) * PER_PAGE
        found = self.shop.stock[max(0, start - 1) : start + PER_PAGE]
        shown = [
            f"<li class='product' data-sku='{sku}'><h2>{escape(name)}</h2>"
            f"<span class='price'>{price(cents)}</span></li>"
            for sku, name, cents in found
        ]
        half = len(shown) // 2
        return "".join(shown[:half]), "".join(shown[half:])

    def _send(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    shop = Shop(int(sys.argv[1]), products(1, 15))
    print(shop.url, flush=True)
    shop.serve_forever()
