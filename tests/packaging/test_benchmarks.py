"""The benchmarks and scripts, which no other test runs, import only what there is."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAMS = sorted(path for folder in ("benchmarks", "scripts") for path in (REPOSITORY / folder).rglob("*.py"))


def imports_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield (module, name) of what is imported from the package when it runs; what is in a `try` may be missing."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Try) or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("swarm_memory"):
            yield from ((str(node.module), alias.name) for alias in node.names)
        yield from imports_of(node)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_what_a_program_imports_is_there(program: Path) -> None:
    for module, name in imports_of(ast.parse(program.read_text("utf-8"))):
        if not hasattr(importlib.import_module(module), name):
            importlib.import_module(f"{module}.{name}")
