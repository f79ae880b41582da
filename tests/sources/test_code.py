"""Source files as passages: definitions in each language, what is left out of a repository, and the order."""

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from made_files import written

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.source import Passage
from swarm_memory.server.sources import code
from swarm_memory.server.sources.code import LANGUAGES, MAX_PART_CHARS, Language, code_passages, outline, read_code
from swarm_memory.server.sources.indexing import IndexRequest, index
from swarm_memory.tools.sources.sources import search_sources
from swarm_memory.tools.toolbox import Toolbox


def named(name: str) -> Language:
    return next(language for language in LANGUAGES if language.name == name)


def read(language: str, text: str, name: str = "shop/store.x") -> dict[str, Passage]:
    return {passage.title: passage for passage in code_passages(name, named(language), text.encode())}


SAMPLES: dict[str, tuple[str, set[str]]] = {
    "python": (
        '"""A shop."""\nclass Shop:\n    """Sells."""\n    @property\n    def total(self):\n        return 1\n'
        "async def run():\n    def inner():\n        pass\n        pass\n",
        {"Shop", "Shop.total", "run", "run.inner"},
    ),
    "javascript": (
        "function add(a) {}\nconst mul = (a) => a;\nclass Shop { buy() {} static go = () => 1; }\n"
        "module.exports.pay = function () {};\nconst api = { list: async () => [], get() {} };\n",
        {"add", "mul", "Shop", "Shop.buy", "Shop.go", "pay", "list", "get"},
    ),
    "typescript": (
        "export interface User { id: number }\nexport type Id = string;\nenum Color { Red }\n"
        "namespace Geo { export function dist(a: number) { return a } }\n"
        "export abstract class A<T> { x = (y: T) => y; abstract foo(): void; constructor() {} }\n",
        {"User", "Id", "Color", "Geo.dist", "A", "A.x", "A.foo", "A.constructor"},
    ),
    "tsx": ("export const Button = ({label}: Props) => <b>{label}</b>;\n", {"Button"}),
    "go": (
        "package shop\ntype Store struct { n int }\nfunc (s *Store) Get(id int) int { return 1 }\n"
        "func (l List[T]) Push(x T) {}\nfunc New() *Store { return nil }\n",
        {"Store", "Store.Get", "List.Push", "New"},
    ),
    "rust": (
        "pub struct P { x: i32 }\nimpl P { pub fn new() -> Self { P { x: 1 } } }\n"
        "impl<T> Show for W<T> { fn show(&self) {} }\n"
        "trait Shape { fn area(&self) -> f64; }\nmod deep { pub fn f() {} }\nmacro_rules! my { () => {} }\n",
        {"P", "P.new", "W.show", "Shape", "Shape.area", "deep.f", "my"},
    ),
    "java": (
        "package x;\npublic class F { @Override public int sell(int a) "
        "{ return a; } F() {} enum Kind { A } record R(int a) {} }\n",
        {"F", "F.sell", "F.F", "F.Kind", "F.R"},
    ),
    "c": (
        "#define MAX(a,b) (a)\nstatic int *sum(int a) { return 0; }\n"
        "struct node { int x; };\ntypedef struct { int a; } pair_t;\n",
        {"MAX", "sum", "node", "pair_t"},
    ),
    "cpp": (
        "namespace geo { class Box { public: int area() const { return 1; } };\n"
        "template <typename T> T top(T a) { return a; } }\n"
        "int geo::Box::volume() { return 2; }\n",
        {"geo.Box", "geo.Box.area", "geo.top", "geo.Box.volume"},
    ),
    "csharp": (
        "namespace A.B { public class Shop { public int Sell(int x) { "
        "return x; } public Shop() {} interface I { void M(); } } }\n",
        {"Shop", "Shop.Sell", "Shop.Shop", "Shop.I", "Shop.I.M"},
    ),
    "ruby": (
        "module Store\n  class Shop\n    def sell(x)\n      x\n    end\n    def self.make; end\n  end\nend\n",
        {"Store", "Store.Shop", "Store.Shop.sell", "Store.Shop.make"},
    ),
    "php": (
        "<?php\nnamespace App;\nclass Shop { public function sell($x) { return $x; } }\n"
        "interface I {}\nfunction helper() {}\n",
        {"Shop", "Shop.sell", "I", "helper"},
    ),
    "kotlin": (
        "package shop\nclass Shop(val x: Int) {\n"
        "  fun sell(a: Int): Int { return a }\n}\nobject One {\n  fun go(): Int = 1\n}\n",
        {"Shop", "Shop.sell", "One", "One.go"},
    ),
    "swift": (
        "class Shop {\n  func sell(_ a: Int) -> Int { return a }\n"
        "  init() {}\n}\nstruct P { var x: Int }\nprotocol Q { func z() }\n",
        {"Shop", "Shop.sell", "Shop.init", "P", "Q", "Q.z"},
    ),
    "bash": ("#!/bin/bash\nbuild() { echo hi; }\nfunction clean { rm x; }\n", {"build", "clean"}),
}


@pytest.mark.parametrize("language", [language.name for language in LANGUAGES])
def test_the_definitions_of_each_language_have_qualified_names(language: str) -> None:
    text, expected = SAMPLES[language]
    found = {title for title, passage in read(language, text).items() if passage.data["symbol"] != "file"}
    assert found == expected


COMMENTED = {
    "python": 'def sell():\n    """Sells one."""\n',
    "javascript": "/**\n * Sells one.\n */\nexport function sell() {}\n",
    "typescript": "// Sells one.\nexport const sell = (): void => {};\n",
    "rust": "/// Sells one.\n#[inline]\nfn sell() {}\n",
    "java": "class A {\n  /** Sells one. */\n  @Override void sell() {}\n}\n",
    "cpp": "/// Sells one.\ntemplate <class T> void sell(T t) {}\n",
    "php": "<?php\n/** Sells one. */\nfunction sell() {}\n",
    "bash": "# Sells one.\nsell() { :; }\n",
}


@pytest.mark.parametrize("language", COMMENTED)
def test_a_docstring_or_the_comment_right_above_describes_a_function(language: str) -> None:
    found = next(passage for title, passage in read(language, COMMENTED[language]).items() if title.endswith("sell"))
    assert found.description == "Sells one."
    assert "sell" in str(found.data["signature"])


def test_a_comment_behind_the_code_above_describes_nothing() -> None:
    assert read("c", "int a = 1; // about a\nvoid sell(void) {}\n")["sell"].description == ""


def test_a_file_is_its_docstring_and_what_is_in_no_definition() -> None:
    text = (
        '"""Sells things. In detail."""\nimport os\nLIMIT = 3\n\ndef sell():\n    """One."""\n    return os.getcwd()\n'
    )
    found = read("python", text, "shop/store.py")
    whole = found["shop.store"]
    assert whole.description == "Sells things. In detail."
    assert "LIMIT = 3" in whole.content
    assert "getcwd" not in whole.content
    assert found["sell"].description == "One.\n\nSells things."


def test_a_licence_is_not_what_a_file_says_of_itself() -> None:
    text = "// Copyright 2020 A. Licensed under X.\n\n// Package shop sells.\npackage shop\n\nvar a, b, c int\n"
    assert read("go", text, "store.go")["store"].description == "Package shop sells."


def test_a_class_shows_its_members_by_signature_and_not_by_body() -> None:
    text = "class Shop:\n    limit = 3\n    def sell(self, item: str) -> int:\n        secret = 1\n        return 2\n"
    content = read("python", text)["Shop"].content
    assert "limit = 3" in content
    assert "def sell(self, item: str) -> int" in content
    assert "secret" not in content


@pytest.mark.parametrize(
    ("text", "name", "lines", "beginning"),
    [
        ("import x\n\n@x.cached\n@x.typed\ndef f():\n    return 1\n\n\nx = 2\n", "f", (3, 6), "@x.cached\n"),
        ("import os\n\x0cdef store():\n    return os\n", "store", (2, 3), "def store"),
        ("def find(text):\n    return '\\d' in text\n", "find", (1, 2), "def find"),
        ('größe = "日本語 😀"\n\ndef naïve():\n    """Größer."""\n    return 1\n', "naïve", (3, 5), "def naïve"),
    ],
    ids=["a decorator", "a form feed", "what Python warns of", "not ASCII"],
)
def test_a_function_of_python_is_whole_with_its_lines(
    text: str, name: str, lines: tuple[int, int], beginning: str
) -> None:
    found = read("python", text)[name]
    assert (found.line, found.end_line) == lines
    assert found.content.startswith(beginning)


def test_a_long_body_is_divided_at_line_ends_with_its_own_lines() -> None:
    body = "".join(f"    value_{number} = 'password: Qx7tR2mPw9z'\n" for number in range(1000))
    parts = [each for each in code_passages("a.py", named("python"), f"def f():\n{body}".encode()) if each.title == "f"]
    assert (len(parts) > 3, max(len(each.content) for each in parts) <= MAX_PART_CHARS) == (True, True)
    said = f"def f():\n{body}".rstrip("\n").replace("Qx7tR2mPw9z", "[secret:password]")
    assert "\n".join(each.content for each in parts) == said
    assert [each.line for each in parts][1:] == [(each.end_line or 0) + 1 for each in parts][:-1]
    assert [each.data.get("part") for each in parts] == [None, *range(2, len(parts) + 1)]


def test_what_stands_beside_a_syntax_error_is_found_and_python_with_one_is_read_as_text() -> None:
    assert "fine" in read("javascript", "function broken( {\n\nfunction fine() { return 1 }\n")
    text = "def broken(:\n    pass\n\ndef fine():\n    return 1"
    (found,) = code_passages("shop/store.py", named("python"), text.encode())
    assert (found.title, found.content, found.data["symbol"]) == ("shop.store", text, "file")


@pytest.mark.parametrize("language", [language.name for language in LANGUAGES])
@pytest.mark.parametrize(
    "text", ["", "\n", "((((((((", "}" * 50, "\u2028", "class class class", '"""', "/*", "#", "é" * 99]
)
def test_no_text_breaks_the_reader_of_any_language(language: str, text: str) -> None:
    assert [each.position for each in code_passages("a", named(language), text.encode())] in ([], [0])


def test_a_deep_nesting_breaks_nothing() -> None:
    text = "".join(" " * depth + f"def f{depth}():\n" for depth in range(90)) + " " * 90 + "pass\n"
    assert "f0.f1.f2" in read("python", text)
    for language in ("javascript", "python"):
        assert len(outline(named(language), b"(" * 20_000).definitions) == 0
    assert len(outline(named("python"), b"x = " + b"-" * 200_000 + b"1\n").definitions) == 0


def test_a_file_that_takes_too_long_is_a_fault_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "a.js", "function f() {}\n" * 200)
    written(tmp_path / "b.py", "def g(): pass\n")
    slow, _ = read_code(tmp_path)
    with monkeypatch.context() as context:
        context.setattr(code, "TIMEOUT_S", 0.0)
        with pytest.raises(InputError, match=r"took longer than 0 s"):
            slow.parse()
    assert [each.parse()[-1].title for each in read_code(tmp_path)] == ["f", "g"]


def test_generated_minified_ignored_and_foreign_files_are_left_out(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    written(tmp_path / ".gitignore", "out/\n")
    for name in ("src/a.py", "out/b.py", "node_modules/c.js", "lib.min.js", "api_pb2.py", "d.xyz", "e.txt"):
        written(tmp_path / name, "x = 1\n")
    written(tmp_path / "gen.go", "// Code generated by tool. DO NOT EDIT.\npackage a\n")
    written(tmp_path / "page.js", "a();" * 10_000)
    written(tmp_path / "run", "#!/usr/bin/env python3\nx = 1\n")
    written(tmp_path / "binary.py", b"\x00\x01\x02" * 50)
    assert [group.group for group in read_code(tmp_path)] == ["src/a.py"]


def test_without_a_grammar_its_files_alone_are_faults_that_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "a.go", "package a\nfunc f() {}\n")
    written(tmp_path / "b.py", "def g(): pass\n")
    written(tmp_path / "c.rs", "fn h() { }\n")
    find = code.importlib.util.find_spec

    def without_go(name: str) -> ModuleSpec | None:
        return None if name == "tree_sitter_go" else find(name)

    monkeypatch.setattr(code.importlib.util, "find_spec", without_go)
    go, python, rust = read_code(tmp_path)
    with pytest.raises(InputError, match=r"a\.go reading go .*swarm-memory\[code\]"):
        go.parse()
    assert [group.parse()[-1].title for group in (python, rust)] == ["g", "h"]


def test_a_grammar_that_does_not_load_is_a_fault_of_its_own_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "site/broken_grammar.py", "raise ImportError('made for another system')\n")
    written(tmp_path / "site/old_grammar.py", "def language(): return 0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site"), *sys.path])
    for package, why in (("broken_grammar", "made for another system"), ("old_grammar", "invalid language")):
        with pytest.raises(InputError, match=f"the grammar of go cannot be used: {why}"):
            code_passages("a.go", named("go")._replace(package=package), b"package a\nfunc f() {}\n")
    assert [each.title for each in code_passages("c.rs", named("rust"), b"fn h() { }\n")] == ["h"]


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
    shapes = "".join(f"def draw_{shape}(canvas): ...\n\n" for shape in ("box", "line", "arc", "text"))
    written(tmp_path / "shop/other.py", shapes)
    written(tmp_path / "shop/orders.py", 'def check_price(order):\n    """Refuse a negative price."""\n    raise\n')
    test = "def test_an_order_with_a_negative_price_is_refused():\n    assert is_refused(order(-1))\n"
    written(tmp_path / "shop/tests/test_orders.py", test)
    await index(toolbox, IndexRequest(kind="code", path="shop"), tmp_path)
    found = await search_sources(toolbox, query, kind="code", k=2)
    assert found.hits[0].passage.title == first


async def test_a_function_is_found_by_what_its_file_is_for(toolbox: Toolbox, tmp_path: Path) -> None:
    body = "def apply(value, factor):\n    return value * factor\n"
    written(tmp_path / "shop/a.py", f'"""Currency conversion. It knows no bank."""\n\n{body}')
    written(tmp_path / "shop/b.py", f'"""Image thumbnails."""\n\n{body}')
    await index(toolbox, IndexRequest(kind="code", path="shop"), tmp_path)
    found = await search_sources(toolbox, "convert a currency", kind="code", k=4)
    order = [(hit.passage.path, hit.passage.title) for hit in found.hits]
    assert order.index(("a.py", "apply")) < order.index(("b.py", "apply"))
