"""HTML as Markdown that the chunks are cut from; it opens no file and follows no link.

A tokenizer of our own and no parser of the standard library: theirs takes quadratic time on a broken page.
"""

import html
import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<!\[CDATA\[(?P<cdata>.*?)(?:\]\]>|\Z)"
    r"|<(?P<raw>script|style|template|svg|noscript|iframe|object|math)\b(?:[^<>\"']|\"[^\"<>]{0,400}\"|['\"]){0,200}+>"
    r".*?(?:</(?P=raw)\s*>|\Z)"
    r"|<[!?][^>]*(?:>|\Z)"
    r"|<(?P<end>/?)(?P<tag>[a-zA-Z][a-zA-Z0-9:-]{0,40})"
    r"(?:[^<>\"']++|\"[^\"]{0,1000}+\"|'[^']{0,1000}+'|[\"']){0,200}+>",
    re.DOTALL | re.IGNORECASE,
)
_BLOCK_TAGS = frozenset(
    """
    address article aside blockquote body dd details dialog div dl dt fieldset figcaption figure footer form head
    header hgroup hr html legend main menu nav ol optgroup option p search section select summary tbody tfoot thead
    ul video audio
    """.split()  # noqa: SIM905 - a list of names reads better as text
)
_HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
_SPACE = re.compile(r"\s+")
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_MARKUP = re.compile(r"^([ \t]*)(#{1,6}[ \t]|`{3}|~{3})", re.MULTILINE)


class Page(NamedTuple):
    """What a page says: its title (empty when it has none) and its text as Markdown."""

    title: str
    text: str


def page(source: str) -> Page:
    """Return the title and text of an HTML page; scripts, styles and comments are left out.

    Headings, fenced `pre`, table rows and list items become Markdown. Any text is accepted. Linear in the length.
    """
    reader = _Reader()
    position = 0
    for token in _TOKEN.finditer(source):
        reader.text(source[position : token.start()])
        position = token.end()
        if token["tag"]:
            reader.tag(token["tag"].lower(), is_end=bool(token["end"]))
        elif token["cdata"]:
            reader.text(html.escape(token["cdata"], quote=False))
    reader.text(source[position:])
    return reader.finished()


class _Reader:
    """Where the reading of a page stands."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.title: list[str] = []
        self.in_title = False
        self.in_pre = 0
        self.in_table = 0
        self.cells = 0
        self.rows = 0
        self.in_heading = False

    def text(self, raw: str) -> None:
        if not raw:
            return
        text = html.unescape(raw)
        if self.in_title:
            self.title.append(text)
        elif self.in_pre:
            self.out.append(text)
        else:
            flat = _SPACE.sub(" ", text)
            self.out.append(flat.replace("|", "\\|") if self.cells else flat)

    def tag(self, name: str, *, is_end: bool) -> None:
        if name == "title" and not self.in_pre:
            self.in_title = not is_end
        elif name in ("pre", "textarea", "listing"):
            self._pre(is_end)
        elif self.in_pre:
            self.out.append("\n" if name == "br" else "")
        elif name in _HEADINGS:
            self._heading(_HEADINGS[name], is_end)
        elif name in ("table", "tr", "td", "th"):
            self._table(name, is_end)
        elif name == "li":
            self.out.append("" if is_end else "\n- ")
        elif name == "br":
            self.out.append(" " if self.in_heading or self.cells else "\n")
        elif name in _BLOCK_TAGS:
            self.out.append(" " if self.in_heading or self.cells else "\n\n")

    def _pre(self, is_end: bool) -> None:
        if not is_end:
            self.in_pre += 1
            self.out.append("\n\n```\n" if self.in_pre == 1 else "")
        elif self.in_pre:
            self.in_pre -= 1
            self.out.append("" if self.in_pre else "\n```\n\n")

    def _heading(self, level: int, is_end: bool) -> None:
        self.in_heading = not is_end
        self.cells = 0
        self.out.append("\n\n" if is_end else f"\n\n{'#' * level} ")

    def _table(self, name: str, is_end: bool) -> None:
        if name == "table":
            self.cells = self.rows = 0
            self.out.append("\n\n")
        elif name == "tr":
            if self.cells:
                self.out.append(" |" + ("\n|" + " --- |" * self.cells if self.rows == 0 else ""))
                self.rows += 1
            self.cells = 0
            self.out.append("" if is_end else "\n")
        elif not is_end and self.cells < 1000:
            self.cells += 1
            self.out.append("| " if self.cells == 1 else " | ")

    def finished(self) -> Page:
        if self.in_pre:
            self.out.append("\n```\n")
        joined = "\n".join(line.rstrip() for line in "".join(self.out).split("\n"))
        title = _SPACE.sub(" ", "".join(self.title)).strip()
        return Page(title, _BLANK_LINES.sub("\n\n", joined).strip() + "\n")
