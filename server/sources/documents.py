"""Text, Markdown, HTML and PDF files as passages, cut by their structure; conversations in JSON, by their turns."""

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pydantic import JsonValue

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.source import Passage
from swarm_memory.server.sources import pdf
from swarm_memory.server.sources.files import Group, bad_group, content_hash, decode, is_binary, read_bytes, read_files
from swarm_memory.tools.guard.redact import without_secrets
from swarm_memory.tools.sources.chunks import chunks, markdown_blocks
from swarm_memory.tools.sources.dialogue import conversation_passages, turns_in

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
_BLOCK_TAGS = """
    address article aside blockquote body dd details dialog div dl dt fieldset figcaption figure footer form head
    header hgroup hr html legend main menu nav ol optgroup option p search section select summary tbody tfoot thead
    ul video audio
    """
_OPENED = {
    **dict.fromkeys(_BLOCK_TAGS.split(), "\n\n"),
    **{f"h{level}": f"\n\n{'#' * level} " for level in range(1, 7)},
    **dict.fromkeys(("pre", "textarea", "listing"), "\n\n```\n"),
    "table": "\n\n",
    "tr": "\n",
    "li": "\n- ",
    "br": "\n",
}
"""The Markdown for an opening tag."""
_CLOSED = {
    **dict.fromkeys((*_BLOCK_TAGS.split(), "table", "h1", "h2", "h3", "h4", "h5", "h6"), "\n\n"),
    **dict.fromkeys(("pre", "textarea", "listing"), "\n```\n\n"),
}
_SPACE = re.compile(r"\s+")
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")


class Page(NamedTuple):
    """A page's title (empty when it has none) and its text as Markdown."""

    title: str
    text: str


def page(source: str) -> Page:
    """Return the title and text of an HTML page; scripts, styles and comments are left out.

    Headings, fenced `pre`, table rows and list items become Markdown. Any text is accepted. Linear in the length.
    """
    reader = _Reader()
    position = 0
    for token in _TOKEN.finditer(source):
        reader.text(html.unescape(source[position : token.start()]))
        position = token.end()
        if token["tag"]:
            reader.tag(token["tag"].lower(), is_end=bool(token["end"]))
        elif token["cdata"]:
            reader.text(token["cdata"])
    reader.text(html.unescape(source[position:]))
    text = "".join([*reader.out, "\n```\n" if reader.fences else ""])
    joined = "\n".join(line.rstrip() for line in text.split("\n"))
    title = _SPACE.sub(" ", "".join(reader.title)).strip()
    return Page(title, _BLANK_LINES.sub("\n\n", joined).strip() + "\n")


class _Reader:
    """The state of reading a page."""

    def __init__(self) -> None:
        self.out: list[str] = []
        self.title: list[str] = []
        self.fences = self.cells = self.rows = 0
        self.in_title = self.in_heading = False

    def text(self, text: str) -> None:
        if self.in_title:
            self.title.append(text)
        elif self.fences:
            self.out.append(text)
        elif text:
            flat = _SPACE.sub(" ", text)
            self.out.append(flat.replace("|", "\\|") if self.cells else flat)

    def tag(self, name: str, *, is_end: bool) -> None:
        text = (_CLOSED if is_end else _OPENED).get(name, "")
        if "```" in text:
            was = self.fences
            self.fences = max(0, was + (-1 if is_end else 1))
            self.out.append(text if {was, self.fences} == {0, 1} else "")
        elif self.fences:
            self.out.append("\n" if name == "br" else "")
        elif name == "title":
            self.in_title = not is_end
        elif name in ("table", "tr", "td", "th"):
            self._table(name, is_end)
            self.out.append(text)
        elif name[:1] == "h" and name[1:].isdigit():
            self.in_heading, self.cells = not is_end, 0
            self.out.append(text)
        else:
            within_line = (self.in_heading or self.cells) and name != "li"
            self.out.append(" " if text and within_line else text)

    def _table(self, name: str, is_end: bool) -> None:
        """Begin a cell, or end the open row, the first one with a rule below it."""
        if name in ("td", "th"):
            if not is_end and self.cells < 1000:
                self.cells += 1
                self.out.append("| " if self.cells == 1 else " | ")
            return
        if name == "table":
            self.rows = 0
        elif self.cells:
            self.out.append(" |" + ("\n|" + " --- |" * self.cells if self.rows == 0 else ""))
            self.rows += 1
        self.cells = 0


READER, DIALOGUE_READER = "documents-2", "dialogue-3"
"""Part of every content hash: raise it when the same bytes yield other passages, and all files are read again."""

MAX_TEXT_BYTES = 20_000_000
MAX_PDF_BYTES = 200_000_000

TEXT_SUFFIXES = frozenset(
    {".txt", ".text", ".md", ".markdown", ".mdx", ".mkd", ".rst", ".adoc", ".asciidoc", ".org", ".tex", ".srt", ".vtt"}
)
HTML_SUFFIXES = frozenset({".html", ".htm", ".xhtml"})
PDF_SUFFIX = ".pdf"
JSON_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson"})
BARE_NAMES = frozenset(
    {"readme", "changelog", "changes", "contributing", "license", "notice", "authors", "news", "todo"}
)
"""Names of documents that come without a suffix."""

_MAX_TITLE = 300
_FRONT_TITLE = re.compile(r"\A---[ \t]*\n(?:.*\n){0,100}?title:[ \t]*(?P<quote>[\"']?)(?P<title>.+?)(?P=quote)[ \t]*\n")


def read_documents(root: Path, *, allows: Callable[[str], bool] | None = None) -> Iterator[Group]:
    """Yield a group for each document in `root`, a folder or one file, named by its path there.

    In a folder, files with a known suffix, and README and the like, are documents, except those that .gitignore or
    `allows`, given the path, leaves out. A file that is `root` itself is read as text whatever its name. JSON is a
    document if it holds conversations (`turns_in`): each turn is a passage. Other passages have about 500
    words, 50 of them repeated where a section continues; the title is the document's and the headings above; `line` and
    `end_line` are set if the file has lines, `data.page` for a PDF, `data.encoding` if the file is not UTF-8.

    Parsing raises `InputError`, which says why, for a file that is binary, too large, encrypted, broken, or a PDF in a
    folder without the extra `pdf`; JSON that is not all read as conversations adds a group whose parsing does. Raises
    `ConfigError` if `root` itself is a PDF and the extra is missing, `InputError` if there is no such file or folder.
    """
    beside: list[Group] = []
    yield from read_files(root, partial(_group, beside), allows)
    yield from beside


def is_document(path: str, suffix: str) -> bool:
    """Tell by its name whether a file in a folder is a document."""
    is_bare = not suffix and PurePosixPath(path).name.lower() in BARE_NAMES
    return is_bare or suffix in TEXT_SUFFIXES | HTML_SUFFIXES | {PDF_SUFFIX}


def _group(beside: list[Group], name: str, file: Path, named: bool) -> Group | None:
    """Return a file's group, None if it is no document; add a group to `beside` that reports a part not read."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in JSON_SUFFIXES:
        data = read_bytes(file, MAX_TEXT_BYTES)
        said, faults = turns_in(decode(data).text, by_line=suffix != ".json")
        if faults:
            why = f"is not valid JSON in {counted(len(faults), 'place')}: {faults[0]}"
            if not (said or named):
                raise InputError(why)
            how = "without that" if said else "as text"
            beside.append(bad_group(f"{name} as a conversation", f"{why}; it is read {how}"))
        if said:
            return Group(name, content_hash(DIALOGUE_READER, name, data), partial(conversation_passages, name, said))
    if not (named or is_document(name, suffix)):
        return None
    if suffix != PDF_SUFFIX:
        data = read_bytes(file, MAX_TEXT_BYTES)
        if is_binary(data):
            return bad_group(name, "is binary, not text")
        return Group(name, content_hash(READER, name, data), partial(_text_passages, name, data, suffix))
    if not pdf.is_available():
        if named:
            raise ConfigError(pdf.MISSING)
        raise InputError(f"was skipped: {pdf.MISSING}")
    hashed = content_hash(READER, name, read_bytes(file, MAX_PDF_BYTES))
    return Group(name, hashed, partial(_pdf_passages, name, file))


def _text_passages(name: str, data: bytes, suffix: str) -> list[Passage]:
    text, encoding = decode(data)
    if suffix in HTML_SUFFIXES:
        title, text = map(without_secrets, page(text))
        return document_passages(name, title, text, encoding, has_lines=False)
    text = without_secrets(text)
    front = _FRONT_TITLE.match(text) if text.startswith("---") else None
    return document_passages(name, front["title"].strip() if front else "", text, encoding)


def _pdf_passages(name: str, file: Path) -> list[Passage]:
    title, pages = pdf.read_pdf(file)
    text = ""
    starts: list[int] = []
    for raw in pages:
        starts.append(len(text))
        text += without_secrets(decode(raw.encode("utf-8", "replace")).text).strip() + "\n\n"
    if not text.strip():
        raise InputError("contains no text: its pages are images")
    title = without_secrets(decode(title.encode("utf-8", "replace")).text)
    return document_passages(name, title, text, "pdf", starts, has_lines=False)


def document_passages(
    name: str, title: str, text: str, encoding: str, page_starts: Sequence[int] = (), *, has_lines: bool = True
) -> list[Passage]:
    """Return the passages of a document's text, none for blank text; `name` is its path within the source.

    `page_starts` is where a PDF's pages begin, `has_lines` whether a line of the text is a line of the file.
    """
    blocks = markdown_blocks(text)
    first = next((block for block in blocks if block.kind == "heading" and block.heading), None)
    named = title or (first.heading if first is not None and first.level == 1 else "")
    title = _shortened(named) or PurePosixPath(name).stem or name
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    passages: list[Passage] = []
    for chunk in chunks(text, blocks):
        content = text[chunk.start : chunk.end].strip("\n").rstrip()
        if not content.strip():
            continue
        begin = text.index(content, chunk.start)
        above = " > ".join([title, *(_shortened(heading) for heading in chunk.headings if heading != title)])
        data: dict[str, JsonValue] = {"document": title}
        if page_starts:
            data["page"] = bisect_right(page_starts, begin)
        if encoding not in ("utf-8", "pdf"):
            data["encoding"] = encoding
        passages.append(
            Passage(
                kind="document",
                group=name[:2000],
                position=len(passages),
                title="  /  ".join([above, *map(_shortened, chunk.also)])[:1000].strip(),
                content=content,
                path=name,
                line=bisect_right(lines, begin) if has_lines else None,
                end_line=bisect_right(lines, begin + len(content) - 1) if has_lines else None,
                data=data,
            )
        )
    return passages


def _shortened(text: str) -> str:
    return " ".join(text[: 4 * _MAX_TITLE].split())[:_MAX_TITLE].strip()
