"""The functions, classes and methods in a source text, by tree-sitter, and the languages that are read."""

import importlib
import importlib.util
import itertools
import re
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from swarm_memory.schema.errors import ConfigError

if TYPE_CHECKING:
    from tree_sitter import Language as Grammar
    from tree_sitter import Node, Query, Tree

MISSING = "indexing code needs tree-sitter and its grammars: pip install 'swarm-memory[code]'"


class Language(NamedTuple):
    """A language, as `languages.toml` describes it."""

    name: str
    package: str
    suffixes: frozenset[str]
    definitions: str
    """The tree-sitter query that captures @function, @class and @scope."""
    entry: str


def _read_languages() -> Iterator[Language]:
    table = tomllib.loads(Path(__file__).with_name("languages.toml").read_text(encoding="utf-8"))
    for name, row in table["languages"].items():
        queries = [*(table["shared"][shared] for shared in row.get("shares", ())), row.get("definitions", "")]
        suffixes, entry = frozenset(row["suffixes"]), row.get("entry", "language")
        yield Language(name, row["package"], suffixes, "\n".join(queries), entry)


LANGUAGES = tuple(_read_languages())

_BY_SUFFIX = {suffix: language for language in LANGUAGES for suffix in language.suffixes}
_BY_NAME = {language.name: language for language in LANGUAGES}
_CPP_MARKS = (b"class ", b"namespace ", b"template", b"std::", b"public:", b"private:", b"constexpr ")


def may_be_code(path: str) -> bool:
    """Tell by its suffix whether a path may be code; a script without one is not read."""
    suffix = PurePosixPath(path).suffix.lower()
    return suffix == ".h" or suffix in _BY_SUFFIX


def language_of(path: str, data: bytes) -> Language | None:
    """Return the language of a file by its suffix; a header is C++ where it has what C has not."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix == ".h":
        return _BY_NAME["cpp" if any(mark in data for mark in _CPP_MARKS) else "c"]
    return _BY_SUFFIX.get(suffix)


def check_installed() -> None:
    """Raise `ConfigError`, naming the extra, when tree-sitter or a grammar is not installed."""
    packages = ("tree_sitter", *dict.fromkeys(language.package for language in LANGUAGES))
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise ConfigError(f"{MISSING} ({', '.join(missing)} not found)")


@cache
def grammar(language: Language) -> "Grammar":
    """Return a language's grammar. Raises `ConfigError` when it is not installed."""
    try:
        from tree_sitter import Language as Grammar

        package = importlib.import_module(language.package)
    except ImportError as error:
        raise ConfigError(f"{MISSING} ({error})") from error
    pointer: object = getattr(package, language.entry)()
    return Grammar(pointer)


@cache
def _definitions_query(language: Language) -> "Query":
    """Return the query for a language's definitions."""
    from tree_sitter import Query

    return Query(grammar(language), language.definitions)


Kind: TypeAlias = Literal["function", "class", "scope"]

TIMEOUT_S = 10.0
_READ_BYTES = 1 << 16
_MAX_DEPTH = 64

_WRAPPERS = frozenset({"decorated_definition", "export_statement", "template_declaration"})
"""Nodes around a definition that belong to it: decorators, `export`, template parameters."""
_CARRIERS = _WRAPPERS | {
    "lexical_declaration", "variable_declaration", "expression_statement", "type_declaration", "ambient_declaration",
}  # fmt: skip
"""Nodes around a definition that a comment may stand before."""
_BETWEEN = frozenset(
    {"attribute_item", "attribute", "attribute_list", "annotation", "decorator", "inner_attribute_item"}
)
"""What may stand between a comment and its definition."""
_COMMENT_MARKS = re.compile(r"^[ \t]*(?:/\*+!?|\*+/|///?!?|//+|\*(?!/)|#+!?|--+)[ \t]?|[ \t]*\*+/[ \t]*$", re.MULTILINE)
_LICENCE = re.compile(r"copyright|\blicen[cs]ed? |SPDX-License|-\*-|\bcoding[:=]", re.IGNORECASE)
_COMMENT_LINE = re.compile(r"^[ \t]*(?://|#(?![a-z\[]))[^\n]*", re.MULTILINE)
_STRING = re.compile(r"\A[rRuUbBfF]{0,2}(\"\"\"|'''|\"|')(.*)\1\Z", re.DOTALL)


class Timeout(Exception):
    """A file took longer to parse than it may."""


@dataclass(slots=True)
class Definition:
    """Something with a name: its range in bytes (decorators included), what it says of itself, and its signature."""

    kind: Kind
    name: str
    start: int
    end: int
    line: int
    end_line: int
    signature: str
    doc: str
    qualified: str = ""
    parent: "Definition | None" = None


@dataclass(frozen=True, slots=True)
class Outline:
    """The definitions of a source in order of their beginning, an outer one first, and what the file says of itself."""

    definitions: tuple[Definition, ...]
    doc: str


def outline(language: Language, source: bytes) -> Outline:
    """Parse UTF-8 `source` and return its outline: of text with syntax errors what could be parsed.

    Raises `Timeout` after `TIMEOUT_S`, `ConfigError` without the grammar.
    """
    deadline = time.monotonic() + TIMEOUT_S
    tree = _parse(language, source, deadline)
    found = {
        (each.start, -each.end, each.name): each  # some are captured twice
        for kind, node in _captured(language, tree, deadline)
        if (each := _definition(kind, node, source)).name
    }
    # A function of one line in another function is left out: that says it all.
    kept = tuple(
        each
        for each in _qualified([found[key] for key in sorted(found)])
        if each.line != each.end_line or each.parent is None or each.parent.kind != "function"
    )
    doc = _module_doc(tree.root_node, source, language)
    return Outline(kept, "" if any(each.doc == doc for each in kept) else doc)


def _parse(language: Language, source: bytes, deadline: float) -> "Tree":
    from tree_sitter import Parser

    parser = Parser(grammar(language))
    try:
        return parser.parse(
            lambda offset, _: source[offset : offset + _READ_BYTES],
            progress_callback=lambda _, __: time.monotonic() > deadline,
        )
    except ValueError as error:
        raise Timeout from error


def _captured(language: Language, tree: "Tree", deadline: float) -> "Iterator[tuple[Kind, Node]]":
    from tree_sitter import QueryCursor

    # No progress callback here: tree-sitter 0.26.1 crashes on it. A query over a finished tree is linear.
    found = QueryCursor(_definitions_query(language)).captures(tree.root_node)
    kinds: tuple[Kind, ...] = ("function", "class", "scope")
    for kind in kinds:
        for node in found.get(kind, ()):
            if time.monotonic() > deadline:
                raise Timeout
            yield kind, node


def _definition(kind: Kind, node: "Node", source: bytes) -> Definition:
    outer = node
    while (parent := outer.parent) is not None and parent.type in _WRAPPERS:
        outer = parent
    body = node.child_by_field_name("body") or _value_body(node)
    head_end = node.end_byte if body is None else body.start_byte
    head = _text(source, outer.start_byte, min(head_end, outer.start_byte + 4000))
    signature = _COMMENT_LINE.sub("", head)
    return Definition(
        kind=kind,
        name=_name(node, source),
        start=outer.start_byte,
        end=outer.end_byte,
        line=outer.start_point[0] + 1,
        end_line=_last_row(outer) + 1,
        signature=" ".join(signature.split()).rstrip(" {:=").removesuffix("=>").rstrip()[:500],
        doc=_docstring(body, source) or _leading_comment(outer, source),
    )


def _last_row(node: "Node") -> int:
    row, column = node.end_point
    return row - 1 if column == 0 and row > node.start_point[0] else row


def _value_body(node: "Node") -> "Node | None":
    """Return the body of the function that a variable, a field or a property holds, or that a wrapper is around."""
    for field in ("value", "right", "type"):
        value = node.child_by_field_name(field)
        if value is not None and (body := value.child_by_field_name("body")) is not None:
            return body
    return next((child for child in node.named_children if child.type.endswith(("_body", "field_list"))), None)


def _name(node: "Node", source: bytes) -> str:
    if node.type == "impl_item":
        named = node.child_by_field_name("type")
    elif node.type in ("init_declaration", "deinit_declaration"):
        return node.type.removesuffix("_declaration")
    else:
        named = next(filter(None, map(node.child_by_field_name, ("name", "left", "key", "property"))), None)
    if named is None:
        named = _declarator(node)
    if named is None:
        named = next((child for child in node.named_children if child.type.endswith("identifier")), None)
    if named is None:
        return ""
    name = _plain_name(_text(source, named.start_byte, min(named.end_byte, named.start_byte + 300)))
    receiver = node.child_by_field_name("receiver")
    if receiver is None:
        return name
    owner = re.findall(r"[A-Za-z_]\w*", re.sub(r"\[.*", "", _text(source, receiver.start_byte, receiver.end_byte)))
    return f"{owner[-1]}.{name}" if owner else name


def _declarator(node: "Node") -> "Node | None":
    """Follow the declarators of C and C++ to the name in them."""
    current = node.child_by_field_name("declarator")
    for _ in range(_MAX_DEPTH):
        if current is None:
            return None
        inner = current.child_by_field_name("declarator")
        if inner is None and current.type in ("reference_declarator", "parenthesized_declarator"):
            inner = current.named_child(0) if current.named_child_count else None
        if inner is None:
            return current
        current = inner
    return None


def _plain_name(text: str) -> str:
    """Return a name without type parameters and quotes, its parts joined by dots."""
    plain = re.sub(r"<[^<>]*>", "", text).replace("::", ".").replace("->", ".").strip("\"'`$ ")
    return (
        re.sub(r"\s+", " ", plain).removeprefix("module.exports.").removeprefix("exports.").removeprefix("this.")[:200]
    )


def _docstring(body: "Node | None", source: bytes) -> str:
    """Return the string that a Python body begins with."""
    if body is None or body.type != "block" or body.named_child_count == 0:
        return ""
    return _string(next((child for child in body.named_children if child.type != "comment"), None), source)


def _string(node: "Node | None", source: bytes) -> str:
    if node is not None and node.type == "expression_statement" and node.named_child_count == 1:
        node = node.named_child(0)
    if node is None or node.type not in ("string", "concatenated_string"):
        return ""
    found = _STRING.match(_text(source, node.start_byte, node.end_byte))
    return _dedented(found[2]) if found else ""


def _leading_comment(node: "Node", source: bytes) -> str:
    """Return the comments that stand right above a definition, without their marks."""
    while (parent := node.parent) is not None and parent.type in _CARRIERS:
        if parent.named_child(0) != node:
            return ""
        node = parent
    lines: list[str] = []
    row, before = node.start_point[0], node.prev_sibling
    while before is not None and _last_row(before) >= row - 1:
        if "comment" in before.type:
            if (above := before.prev_sibling) is not None and above.end_point[0] == before.start_point[0]:
                break  # it stands behind the code of its own line and belongs to that
            lines.append(_text(source, before.start_byte, before.end_byte))
        elif before.type not in _BETWEEN:
            break
        row, before = before.start_point[0], before.prev_sibling
    return _uncommented("\n".join(reversed(lines)))


def _module_doc(root: "Node", source: bytes, language: Language) -> str:
    """Return the docstring or the first comment of a file that is no licence; `#!` is none."""
    heads = ("hash_bang_line", "php_tag")
    children = [
        child
        for child in root.named_children[:50]
        if child.type not in heads and not source.startswith(b"#!", child.start_byte)
    ]
    if language.name == "python":
        first = next((child for child in children if child.type != "comment"), None)
        if doc := _string(first, source):
            return doc
    blocks: list[list[Node]] = []  # of comments that stand right under each other
    for child in itertools.takewhile(lambda child: "comment" in child.type, children):
        if blocks and child.start_point[0] <= _last_row(blocks[-1][-1]) + 1:
            blocks[-1].append(child)
        else:
            blocks.append([child])
    texts = ("\n".join(_text(source, each.start_byte, each.end_byte) for each in block) for block in blocks)
    return next((_uncommented(text) for text in texts if not _LICENCE.search(text)), "")


def _uncommented(text: str) -> str:
    return _dedented(_COMMENT_MARKS.sub("", text))


def _dedented(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().split("\n"))


def _qualified(ordered: list[Definition]) -> Iterator[Definition]:
    """Give each definition the names of those around it."""
    around: list[Definition] = []
    for each in ordered:
        while around and (around[-1].end < each.end or around[-1].end <= each.start):
            around.pop()
        each.parent = around[-1] if around else None
        above = each.parent.qualified if each.parent is not None else ""
        each.qualified = (f"{above}.{each.name}" if above else each.name)[-500:]
        yield each
        around.append(each)


def _text(source: bytes, start: int, end: int) -> str:
    return source[start:end].decode("utf-8", "replace")
