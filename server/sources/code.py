"""Source files as passages: one for each file, class and function, found by `ast` in Python and by tree-sitter in
other languages.
"""

import ast
import importlib
import importlib.util
import re
import threading
import time
import tomllib
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from pydantic import JsonValue

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.source import Passage
from swarm_memory.server.sources.files import Group, content_hash, decode, is_binary, read_bytes, read_files
from swarm_memory.tools.guard.redact import redact_start, without_secrets

if TYPE_CHECKING:
    from tree_sitter import Language as Grammar
    from tree_sitter import Node, Query

Kind: TypeAlias = Literal["function", "class", "scope"]

TIMEOUT_S = 10.0
"""How long tree-sitter may take for one file."""

_READ_BYTES = 1 << 16
_MAX_HEAD = 4000
_WRAPPERS = frozenset({"export_statement", "template_declaration"})
"""Nodes around a definition that belong to it."""
_COMMENT = re.compile(r"//|--|#(?:#*[ \t]|#*$)")
_ATTRIBUTE = re.compile(r"[ \t]*(?:#?\[|@)")
"""What may come between a comment and its definition."""
_COMMENT_MARKS = re.compile(r"^[ \t]*(?:/\*+!?|\*+/|///?!?|//+|\*(?!/)|#+!?|--+)[ \t]?|[ \t]*\*+/[ \t]*$", re.MULTILINE)
_COMMENT_LINE = re.compile(r"^[ \t]*(?://|#(?![a-z\[]))[^\n]*", re.MULTILINE)
_LICENCE = re.compile(r"copyright|\blicen[cs]ed? |SPDX-License|-\*-|\bcoding[:=]", re.IGNORECASE)
_PARSING = threading.Lock()


class Language(NamedTuple):
    """A language, as `languages.toml` describes it; Python has no grammar."""

    name: str
    suffixes: frozenset[str]
    package: str = ""
    entry: str = "language"
    definitions: str = ""
    """The tree-sitter query that captures @function, @class and @scope."""


def _read_languages() -> Iterator[Language]:
    yield Language("python", frozenset({".py", ".pyi", ".pyw"}))
    table = tomllib.loads(Path(__file__).with_name("languages.toml").read_text(encoding="utf-8"))
    for name, row in table["languages"].items():
        queries = [*(table["shared"][shared] for shared in row.get("shares", ())), row.get("definitions", "")]
        suffixes, entry = frozenset(row["suffixes"]), row.get("entry", "language")
        yield Language(name, suffixes, row["package"], entry, "\n".join(queries))


LANGUAGES = tuple(_read_languages())

_BY_SUFFIX = {suffix: language for language in LANGUAGES for suffix in language.suffixes}


def language_of(path: str) -> Language | None:
    """Return the language of a file by its suffix; a script without one is not read."""
    return _BY_SUFFIX.get(PurePosixPath(path).suffix.lower())


def missing(language: Language) -> str:
    """Return what to install before a language can be read; empty if it can be read already."""
    packages = ("tree_sitter", language.package) if language.package else ()
    if all(importlib.util.find_spec(package) for package in packages):
        return ""
    alone = " ".join(packages).replace("_", "-")
    return f"reading {language.name} needs its grammar: pip install 'swarm-memory[code]', or just {alone}"


@dataclass(slots=True)
class Definition:
    """A named definition: its range in bytes (decorators included), its documentation, and its signature.

    A parser returns it with positions in bytes; `outline` adds the rest.
    """

    start: int
    end: int
    kind: Kind
    name: str
    body: int
    """Where its body begins; the signature ends before that."""
    doc: str = ""
    line: int = 0
    end_line: int = 0
    signature: str = ""
    qualified: str = ""
    parent: "Definition | None" = None


class Outline(NamedTuple):
    """The definitions of a source in order of their start, an outer one first, and the file's own documentation."""

    definitions: tuple[Definition, ...] = ()
    doc: str = ""


def outline(language: Language, source: bytes) -> Outline:
    """Parse UTF-8 `source` and return its outline.

    A text with syntax errors yields what could be parsed, in Python nothing. Raises `InputError` after `TIMEOUT_S`.
    """
    lines = source.decode("utf-8", "replace").split("\n")
    starts = [0, *(match.end() for match in re.finditer(b"\n", source))]
    comments = dict(_comments(lines))
    found, doc = _in_python(source, starts) if language.name == "python" else (_by_grammar(language, source), "")
    for each in found:
        row = bisect_right(starts, each.start) - 1
        head = source[each.start : min(each.body, each.start + _MAX_HEAD)].decode("utf-8", "replace")
        signature = " ".join(_COMMENT_LINE.sub("", head).split()).rstrip(" {:=").removesuffix("=>")
        each.signature = redact_start(signature.rstrip(), 500, pii=False)
        each.line, each.end_line = row + 1, bisect_right(starts, max(each.start, each.end - 1))
        while row and row not in comments and _ATTRIBUTE.match(lines[row - 1]):
            row -= 1
        each.doc = each.doc or (_uncommented(lines[comments[row] : row]) if row in comments else "")
    kept: list[Definition] = []
    around: list[Definition] = []
    for each in sorted(found, key=lambda each: (each.start, -each.end, each.name)):
        while around and (around[-1].end < each.end or around[-1].end <= each.start):
            around.pop()
        above = each.parent = around[-1] if around else None
        each.qualified = (f"{above.qualified}.{each.name}" if above and above.qualified else each.name)[-500:]
        around.append(each)
        # A one-line function within another function is left out: the outer one shows all of it.
        if each.line != each.end_line or above is None or above.kind != "function":
            kept.append(each)
    doc = doc or _comment_at_top(lines, comments)
    return Outline(tuple(kept), "" if any(each.doc == doc for each in kept) else doc)


def _in_python(source: bytes, starts: Sequence[int]) -> tuple[list[Definition], str]:
    """Return the definitions and the docstring of a module; nothing for text that is not valid Python."""
    try:
        # Warnings are about the text that is read, and warning filters belong to the whole process.
        with _PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source.decode("utf-8", "replace"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [], ""

    def position(node: ast.stmt | ast.expr) -> int:
        return starts[node.lineno - 1] + node.col_offset

    def start_of(node: ast.stmt) -> int:
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        return source.rindex(b"@", 0, position(decorators[0])) if decorators else position(node)

    found: list[Definition] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            kind: Kind = "class" if isinstance(node, ast.ClassDef) else "function"
            last = node.end_lineno or node.lineno  # the whole line: a comment may follow
            end = starts[last] - 1 if last < len(starts) else len(source)
            doc = (ast.get_docstring(node) or "").strip()
            found.append(Definition(start_of(node), end, kind, node.name, start_of(node.body[0]), doc))
    return found, ast.get_docstring(tree) or ""


@cache
def _grammar(language: Language) -> "tuple[Grammar, Query]":
    """Return a grammar with its query. Raises `InputError` if it does not load or fit; others are not affected."""
    try:
        from tree_sitter import Language as Grammar
        from tree_sitter import Query

        pointer: object = getattr(importlib.import_module(language.package), language.entry)()
        grammar = Grammar(pointer)
        return grammar, Query(grammar, language.definitions)
    except (ImportError, AttributeError, ValueError) as error:
        why = " ".join(str(error).split())[:200]
        raise InputError(f"the grammar of {language.name} cannot be used: {why}") from error


def _by_grammar(language: Language, source: bytes) -> list[Definition]:
    """Return the definitions that the language's query captures, each once."""
    from tree_sitter import Parser, QueryCursor

    grammar, query = _grammar(language)
    deadline = time.monotonic() + TIMEOUT_S
    try:
        tree = Parser(grammar).parse(
            lambda offset, _: source[offset : offset + _READ_BYTES],
            progress_callback=lambda _, __: time.monotonic() > deadline,
        )
    except ValueError:
        raise InputError(f"took longer than {TIMEOUT_S:g} s to parse") from None
    # No progress callback here: tree-sitter 0.26.1 crashes on it. A query over a finished tree is linear.
    matches = QueryCursor(query).matches(tree.root_node)
    found = [_captured(captured, source) for _, captured in matches]
    return [*{(each.start, each.end, each.kind, each.name, each.body): each for each in found if each.name}.values()]


def _captured(captured: "dict[str, list[Node]]", source: bytes) -> Definition:
    """Return the definition that a query's match captured; its name is empty if the text has a syntax error there."""
    kind = next(kind for kind in get_args(Kind) if kind in captured)
    (node,) = captured[kind]

    def part(of: str) -> "Node | None":
        return captured[of][0] if of in captured else node.child_by_field_name(of)

    outer = node
    while (parent := outer.parent) is not None and parent.type in _WRAPPERS:
        outer = parent
    body = part("body")
    line_end = source.find(b"\n", node.start_byte, node.end_byte)
    head_end = body.start_byte if body is not None else line_end if line_end >= 0 else node.end_byte
    names = [_plain_name(source[each.start_byte : each.end_byte]) for each in (part("owner"), part("name")) if each]
    return Definition(outer.start_byte, outer.end_byte, kind, ".".join(names), head_end)


def _plain_name(name: bytes) -> str:
    """Return a name without type parameters, sigils and quotes, its parts joined by dots."""
    plain = re.sub(r"<[^<>]*>|\[.*", "", name[:300].decode("utf-8", "replace")).replace("::", ".").strip("\"'`$*& ")
    return re.sub(r"\s+", " ", plain).removeprefix("module.").removeprefix("exports.").removeprefix("this.")[:200]


def _comments(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield each run of comment-only lines, as the row after it and its first row."""
    begun, is_open = 0, False
    for row, line in enumerate([*lines, "."]):
        text = line.strip()
        if is_open or text.startswith("/*"):
            is_open = "*/" not in text
        elif not _COMMENT.match(text):
            if begun < row:
                yield row, begun
            begun = row + 1


def _comment_at_top(lines: Sequence[str], comments: dict[int, int]) -> str:
    """Return the first comment that is not a licence and comes before any code."""
    row = 0
    for end, first in comments.items():
        if any(line.strip() and not line.startswith(("#!", "<?php")) for line in lines[row:first]):
            break
        if not _LICENCE.search("\n".join(lines[first:end])):
            return _uncommented(lines[first:end])
        row = end
    return ""


def _uncommented(lines: Sequence[str]) -> str:
    return "\n".join(line.strip() for line in _COMMENT_MARKS.sub("", "\n".join(lines)).strip().split("\n"))


READER = "code-3"
"""Part of every content hash: raise it when the same bytes yield other passages, and all files are read again."""

MAX_BYTES = 2_000_000
MAX_PART_CHARS = 6_000
"""A longer body is divided at line ends."""

_MAX_PARTS = 50
_MAX_LINE_CHARS = 5_000
_MAX_DOC_CHARS = 4_000
_MAX_PURPOSE_CHARS = 200
_MIN_FILE_WORDS = 3
GENERATED_NAME = re.compile(
    r"[.-]min\.(?:js|mjs|cjs)$|\.bundle\.js$|_pb2(?:_grpc)?\.pyi?$|\.pb(?:\.gw)?\.(?:go|cc|h)$|\.g(?:enerated)?\.\w+$"
    r"|\.designer\.cs$|(?:^|/)(?:jquery|bootstrap)[^/]*\.js$",
    re.IGNORECASE,
)
"""Matches the name of a generated or minified file."""

_GENERATED_MARK = re.compile(
    rb"^[^\w\n]{0,8}(?:.{0,80}@generated\b|.{0,80}\bcode generated by\b.{0,200}\bdo not edit\b|\s*<auto-generated)"
    rb"|^[^\w\n]{0,8}(?:this file (?:is|was) |auto-?)?generated (?:automatically |by ).{0,200}do not (?:edit|modify)",
    re.IGNORECASE | re.MULTILINE,
)


def read_code(root: Path, *, allows: Callable[[str], bool] | None = None) -> Iterator[Group]:
    """Yield a group for each source file in `root`, a folder or one file, named by its path there.

    Files that .gitignore names, that are generated or minified, or that `allows`, given the path, refuses are left out.
    The first passage is for the file itself (its docstring, imports, constants: what is in no definition). Then come
    each class with its members' signatures, and each function, method and nested function in full, under qualified
    names, in the order of the file. A definition is described by its docstring or the comment before it, and by the
    first sentence of the file's own documentation. A body over `MAX_PART_CHARS` becomes several passages of one name. A
    file with syntax errors yields what can be parsed, in Python its text. Parsing raises `InputError` if a file is too
    large, takes longer than `TIMEOUT_S`, or needs a missing grammar; so does a `root` that does not exist.
    """
    return read_files(root, _group, allows)


def _group(name: str, file: Path, named: bool) -> Group | None:
    language = language_of(name)
    if language is None or (not named and GENERATED_NAME.search(name)):
        return None
    if without := missing(language):
        raise InputError(without)
    data = read_bytes(file, MAX_BYTES)
    if is_binary(data):
        return None
    has_long_line = any(len(line) > _MAX_LINE_CHARS for line in data.split(b"\n"))
    is_minified = has_long_line and data.count(b"\n") < len(data) / 200
    if not named and (is_minified or _GENERATED_MARK.search(data, 0, 1500)):
        return None
    return Group(name, content_hash(READER, name, data), partial(code_passages, name, language, data))


def code_passages(name: str, language: Language, data: bytes) -> list[Passage]:
    """Return the passages of one file; `name` is its path within the source. Raises `InputError`."""
    return _Writer(name, language, decode(data).text.encode("utf-8", "replace")).passages


class _Writer:
    """Makes the passages of one file from its outline."""

    def __init__(self, name: str, language: Language, source: bytes) -> None:
        self.name, self.language, self.source = name, language.name, source
        self.outline = outline(language, source)
        self.inner: dict[int, list[Definition]] = {}
        for each in self.outline.definitions:
            self.inner.setdefault(id(each.parent), []).append(each)
        self.passages: list[Passage] = []
        self.purpose = ""
        """The first sentence of the file's own documentation, which is appended to each definition's description."""
        outside = self._without(0, len(self.source), self.inner.get(id(None), []), signatures=False)
        if self.outline.doc or len(re.findall(r"\w+", outside)) >= _MIN_FILE_WORDS:
            last = self.source.count(b"\n", 0, len(self.source.rstrip())) + 1
            path = PurePosixPath(self.name)
            parts = [*path.parts[:-1], path.stem]  # of the module's dotted name
            if len(parts) > 1 and parts[-1] in ("__init__", "mod", "index"):
                parts.pop()
            self._add(".".join(parts), self.outline.doc, outside, (1, last), symbol="file")
        first = re.split(r"(?<=[.!?])\s|\n\n", self.outline.doc, maxsplit=1)[0]
        self.purpose = " ".join(without_secrets(first).split())[:_MAX_PURPOSE_CHARS]
        for each in self.outline.definitions:
            if each.kind != "scope":
                self._definition(each)

    def _definition(self, each: Definition) -> None:
        """Add a class with its members' signatures, or a function in full (if long, with signatures of those in it)."""
        inner = self.inner.get(id(each), [])
        is_method = each.parent is not None and each.parent.kind != "function"
        symbol = "class" if each.kind == "class" else "method" if is_method else "function"
        is_whole = symbol != "class" and (not inner or each.end - each.start <= MAX_PART_CHARS)
        text = self._without(each.start, each.end, inner, signatures=True)
        if is_whole:
            text = _decoded(self.source[each.start : each.end])
        lines, data = (each.line, each.end_line), {"symbol": symbol, "signature": each.signature}
        self._add(each.qualified, each.doc, text, lines, has_all_lines=is_whole, **data)

    def _without(self, start: int, end: int, inner: Sequence[Definition], *, signatures: bool) -> str:
        """Return a range of the source with each definition in it reduced to its signature, or left out."""
        parts: list[str] = []
        at = start
        for each in inner:
            parts.append(_decoded(self.source[at : each.start]))
            if each.kind == "scope":
                parts.append(self._without(each.start, each.end, self.inner.get(id(each), []), signatures=signatures))
            elif signatures:
                parts.append(f"{each.signature} …\n")
            at = max(at, each.end)
        parts.append(_decoded(self.source[at:end]))
        return re.sub(r"\n(?:[ \t]*\n)+", "\n\n", "".join(parts)).strip("\n")

    def _add(
        self, title: str, doc: str, text: str, lines: tuple[int, int], *, has_all_lines: bool = False, **data: JsonValue
    ) -> None:
        """Add a passage, or several of one name if the text is long; each has its own lines only if `has_all_lines`."""
        line = lines[0]
        doc = redact_start(doc, _MAX_DOC_CHARS, pii=False)
        for number, part in enumerate(_parts(text)):
            height = part.count("\n")
            span = (line, min(line + height, lines[1])) if has_all_lines else lines
            passage = Passage(
                kind="code",
                group=self.name[:2000],
                position=len(self.passages),
                title=(title or self.name)[:1000],
                description="\n\n".join(filter(None, ("" if number else doc, self.purpose))),
                content=part,
                path=self.name,
                line=span[0],
                end_line=max(span),
                data={"language": self.language, **data, **({"part": number + 1} if number else {})},
            )
            self.passages.append(passage)
            line += height + 1


def _parts(text: str) -> Iterator[str]:
    """Yield a text in parts of at most `MAX_PART_CHARS`, cut at line ends, or within a longer line."""
    text = text if len(text) <= MAX_PART_CHARS else without_secrets(text)
    for _ in range(_MAX_PARTS - 1):
        if len(text) <= MAX_PART_CHARS:
            break
        end = text.rfind("\n", 1, MAX_PART_CHARS)
        yield text[: end if end > 0 else MAX_PART_CHARS]
        text = text[end + 1 if end > 0 else MAX_PART_CHARS :]
    yield text[:MAX_PART_CHARS]


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace")
