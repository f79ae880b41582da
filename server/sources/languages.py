"""The programming languages that are read: their suffixes, grammars, and what a definition is in each."""

import importlib
import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from swarm_memory.schema.errors import ConfigError

if TYPE_CHECKING:
    from tree_sitter import Language as Grammar
    from tree_sitter import Query

MISSING = "indexing code needs tree-sitter and its grammars: pip install 'swarm-memory[code]'"


@dataclass(frozen=True, slots=True)
class Language:
    """A language: the package of its grammar, and a tree-sitter query that captures @function, @class and @scope.

    A scope (a namespace, an `impl` block) gives its name to what is in it and is no passage itself.
    """

    name: str
    package: str
    suffixes: frozenset[str]
    definitions: str
    entry: str = "language"
    interpreters: frozenset[str] = frozenset()


def _language(name: str, package: str, suffixes: str, definitions: str, **more: str) -> Language:
    interpreters = frozenset(more.pop("interpreters", "").split())
    return Language(name, package, frozenset(suffixes.split()), definitions, interpreters=interpreters, **more)


_JAVASCRIPT = """
[(function_declaration) (generator_function_declaration) (method_definition)] @function
(variable_declarator value: [(arrow_function) (function_expression) (generator_function)]) @function
(assignment_expression right: [(arrow_function) (function_expression)]) @function
(pair value: [(arrow_function) (function_expression)]) @function
(variable_declarator value: (class)) @class
"""
_TYPESCRIPT = (
    _JAVASCRIPT
    + """
(public_field_definition value: [(arrow_function) (function_expression)]) @function
[(function_signature) (abstract_method_signature)] @function
[(class_declaration) (abstract_class_declaration) (interface_declaration) (enum_declaration)
 (type_alias_declaration)] @class
[(internal_module) (module)] @scope
"""
)
_C = """
[(function_definition) (preproc_function_def)] @function
[(struct_specifier name: (_) body: (_)) (union_specifier name: (_) body: (_))
 (enum_specifier name: (_) body: (_))] @class
(type_definition type: [(struct_specifier !name) (union_specifier !name) (enum_specifier !name)]) @class
"""

LANGUAGES = (
    _language(
        "python",
        "tree_sitter_python",
        ".py .pyi .pyw",
        "(function_definition) @function (class_definition) @class",
        interpreters="python python3",
    ),
    _language(
        "javascript",
        "tree_sitter_javascript",
        ".js .jsx .mjs .cjs",
        _JAVASCRIPT
        + "(field_definition value: [(arrow_function) (function_expression)]) @function (class_declaration) @class",
        interpreters="node",
    ),
    _language(
        "typescript",
        "tree_sitter_typescript",
        ".ts .mts .cts",
        _TYPESCRIPT,
        entry="language_typescript",
        interpreters="deno ts-node tsx bun",
    ),
    _language("tsx", "tree_sitter_typescript", ".tsx", _TYPESCRIPT, entry="language_tsx"),
    _language(
        "go",
        "tree_sitter_go",
        ".go",
        "[(function_declaration) (method_declaration)] @function [(type_spec) (type_alias)] @class",
    ),
    _language(
        "rust",
        "tree_sitter_rust",
        ".rs",
        """
        [(function_item) (function_signature_item) (macro_definition)] @function
        [(struct_item) (enum_item) (union_item) (trait_item) (type_item)] @class
        [(impl_item) (mod_item body: (_))] @scope
        """,
    ),
    _language(
        "java",
        "tree_sitter_java",
        ".java",
        """
        [(method_declaration) (constructor_declaration) (compact_constructor_declaration)] @function
        [(class_declaration) (interface_declaration) (enum_declaration) (record_declaration)
         (annotation_type_declaration)] @class
        """,
    ),
    _language("c", "tree_sitter_c", ".c", _C),
    _language(
        "cpp",
        "tree_sitter_cpp",
        ".cc .cpp .cxx .c++ .hh .hpp .hxx .h++ .ipp .cu .cuh .ino",
        _C + "(class_specifier name: (_) body: (_)) @class (namespace_definition name: (_)) @scope",
    ),
    _language(
        "csharp",
        "tree_sitter_c_sharp",
        ".cs .csx",
        """
        [(method_declaration) (constructor_declaration) (destructor_declaration) (local_function_statement)
         (operator_declaration) (delegate_declaration)] @function
        [(class_declaration) (struct_declaration) (interface_declaration) (record_declaration)
         (enum_declaration)] @class
        """,
    ),
    _language(
        "ruby",
        "tree_sitter_ruby",
        ".rb .rake .gemspec",
        "[(method) (singleton_method)] @function [(class name: (_)) (module name: (_))] @class",
        interpreters="ruby",
    ),
    _language(
        "php",
        "tree_sitter_php",
        ".php .phtml",
        """
        [(function_definition) (method_declaration)] @function
        [(class_declaration) (interface_declaration) (trait_declaration) (enum_declaration)] @class
        """,
        entry="language_php",
        interpreters="php",
    ),
    _language(
        "kotlin",
        "tree_sitter_kotlin",
        ".kt .kts",
        "(function_declaration) @function [(class_declaration) (object_declaration)] @class",
    ),
    _language(
        "swift",
        "tree_sitter_swift",
        ".swift",
        """
        [(function_declaration) (protocol_function_declaration) (init_declaration) (deinit_declaration)] @function
        [(class_declaration) (protocol_declaration)] @class
        """,
        interpreters="swift",
    ),
    _language(
        "bash",
        "tree_sitter_bash",
        ".sh .bash .bats .ksh",
        "(function_definition) @function",
        interpreters="sh bash ksh",
    ),
)

_BY_SUFFIX = {suffix: language for language in LANGUAGES for suffix in language.suffixes}
_BY_NAME = {language.name: language for language in LANGUAGES}
_BY_INTERPRETER = {name: language for language in LANGUAGES for name in language.interpreters}
_CPP_MARKS = (b"class ", b"namespace ", b"template", b"std::", b"public:", b"private:", b"constexpr ")


def may_be_code(path: str) -> bool:
    """Tell whether a path may be code: by its suffix, or because it has none and its first line may say."""
    suffix = PurePosixPath(path).suffix.lower()
    return not suffix or suffix == ".h" or suffix in _BY_SUFFIX


def language_of(path: str, data: bytes) -> Language | None:
    """Return the language of a file by its suffix, else by the interpreter that its first line names."""
    suffix = PurePosixPath(path).suffix.lower()
    if suffix == ".h":
        return _BY_NAME["cpp" if any(mark in data for mark in _CPP_MARKS) else "c"]
    if suffix:
        return _BY_SUFFIX.get(suffix)
    if not data.startswith(b"#!"):
        return None
    words = data[2:200].split(b"\n", 1)[0].decode("ascii", "replace").split()
    names = [PurePosixPath(word).name for word in words if not word.startswith("-") and "=" not in word]
    program = names[1] if names[:1] == ["env"] and len(names) > 1 else "".join(names[:1])
    return _BY_INTERPRETER.get(program) or _BY_INTERPRETER.get(program.rstrip("0123456789."))


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
def definitions(language: Language) -> "Query":
    """Return the query for a language's definitions."""
    from tree_sitter import Query

    return Query(grammar(language), language.definitions)
