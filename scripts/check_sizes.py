"""Checks the limits of the code: rooms, sizes, parameters, broad excepts, late imports, and reads of the environment.

python scripts/check_sizes.py          exits with 1 and names each breach
python scripts/check_sizes.py --stats  prints the figures too
"""

import ast
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
CODE = ("schema", "tools", "server")
MAX_MODULE, MAX_TEST_MODULE, MAX_FUNCTION, MAX_PARAMETERS = 600, 800, 80, 7
MAX_P90, MAX_MEDIAN = 40, 12
MAX_FOLDER = 12

BUDGETS = {
    "tools/trajectory": 2_160,  # aim 2,000
    "tools/judge": 421,  # aim 700
    "tools/distill": 907,
    "tools/learn": 510,
    "tools/matts server/runners": 1_222,  # aim 1,400
    "tools/tool_memory": 1_485,  # aim 1,400
    "tools/retrieve": 1_803,
    "tools/credit": 638,  # aim 600
    "tools/consolidate": 920,  # aim 900
    "tools/memories tools/tasks": 1_715,  # aim 1,500
    "tools/guard": 1_765,  # aim 1,400
    "tools/text tools/model tools/anchors server/project": 1_706,  # aim 1,500
    "tools/mirror server/mirror": 444,
    "tools/promote": 455,
    "tools/ports tools/*.py": 979,  # aim 800
    "schema": 2_297,  # aim 2,000
    "server/storage/stores": 3_259,  # aim 3,000
    "server/storage/search": 678,
    "server/storage/engine": 1_834,  # aim 1,300
    "server/storage/care": 509,
    "server/storage/postgres": 781,
    "server/storage/*.py": 562,  # aim 800
    "server/hooks": 1_004,  # aim 900
    "server/hosts": 3_385,
    "server/cli": 3_017,  # aim 2,800
    "server/mcp server/operations": 1_599,  # aim 1,400
    "server/http server/access": 613,  # aim 700
    "server/viewer": 1_212,
    "server/chat": 629,  # aim 500
    "server/embedding server/rerank": 697,
    "server/jobs": 1_045,  # aim 900
    "server/sources tools/sources": 2_640,  # aim 2,800
    "server/team tools/team": 853,  # aim 950
    "server/benchmark tools/benchmark": 2_818,
    "server/*.py": 1_435,  # aim 1,300
}
"""The most lines of Python in each room; whoever adds says what goes. A room above its aim may only shrink."""

BESIDE = {"tests": 45_000, "tests/shared": 3_500, "benchmarks": 5_500}
"""The most lines of Python in other folders."""

BROAD_EXCEPTS = {
    "server/cli/main.py": 1,
    "server/hooks/main.py": 1,
    "server/hooks/events.py": 1,
    "server/jobs/worker.py": 1,
    "server/served_bank.py": 1,
    "tools/learn/learn.py": 1,  # one bad trajectory of many is named, and the others go on
}
"""The mains: where an unforeseen fault becomes an exit code, a log line or a failed job."""

LATE_LIBRARIES = frozenset({
    "anyio", "asyncio", "ctypes", "difflib", "hashlib", "httpx", "httpx2", "importlib", "jsonschema",
    "logging", "mcp", "numpy", "openai", "pathspec", "pypdf", "rich", "subprocess", "tempfile", "tree_sitter", "yaml",
})  # fmt: skip
"""May be imported within a function, because importing takes much time or memory and few calls need them."""

LATE_OWN = ("server/cli/", "server/mcp/", "server/operations/", "server/hooks/", "server/jobs/", "server/benchmark/",
            "server/wiring.py", "server/runners/build.py", "server/sources/indexing.py", "server/hosts/input.py",
            "server/console_script.py", "server/folders.py")  # fmt: skip
"""Where our own code may be imported within functions: a host waits for the list of tools, a person for a hook."""

LIGHT = ("tools/", "schema/")
"""Folders whose code must not use the environment."""

SIGNATURES = ("server/mcp", "server/operations", "server/cli/commands")
"""Where the signature of a function with a decorator, or with `ctx` or `site`, is the schema of a tool or a command."""


class Function(NamedTuple):
    """One function: its length in lines, decorators and docstring included, and how many parameters it has."""

    where: str
    lines: int
    parameters: int


def functions_of(path: Path, tree: ast.AST) -> Iterator[Function]:
    """Yield every function of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            lines = (node.end_lineno or node.lineno) - first + 1
            yield Function(f"{path}:{node.lineno} {node.name}", lines, _parameters_of(path, node))


def _parameters_of(path: Path, node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count all parameters but `self`; 0 where the signature is a schema."""
    given = node.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    names = [each.arg for each in every if each.arg not in {"self", "cls"}]
    is_schema = path.as_posix().startswith(SIGNATURES) and (node.decorator_list or {"ctx", "site"} & {*names})
    return 0 if is_schema else len(names)


def broad_excepts_of(tree: ast.AST) -> int:
    """Count the handlers that catch everything and keep it; one that ends by re-raising only cleans up."""
    handlers = (node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler))
    return sum(_is_broad(handler.type) and not _raises_again(handler) for handler in handlers)


def _raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def _is_broad(caught: ast.expr | None) -> bool:
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(
        name is None or (isinstance(name, ast.Name) and name.id in {"Exception", "BaseException"}) for name in names
    )


def late_imports_of(path: Path, tree: ast.AST) -> Iterator[str]:
    """Yield what is imported within a function for none of the listed reasons."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if not isinstance(node, ast.Import | ast.ImportFrom):
                    continue
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                for name in names:
                    is_own = name.startswith("swarm_memory.") and path.as_posix().startswith(LATE_OWN)
                    if not is_own and name.partition(".")[0] not in LATE_LIBRARIES:
                        yield f"{path}:{node.lineno}: {name} is imported within a function"


def asks_environment(tree: ast.AST) -> bool:
    """Whether a module reads or writes `os.environ`."""
    return any(isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv") for node in ast.walk(tree))


def modules(folders: tuple[str, ...]) -> Iterator[tuple[Path, str, ast.AST]]:
    """Yield (path from the root, text, tree) of every Python file in the folders."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            yield path.relative_to(ROOT), text, ast.parse(text)


def wide_folders() -> Iterator[str]:
    """Yield the folders that hold more modules than one can see at a glance."""
    folders = Counter(path.parent.as_posix() for path, _, _ in modules(CODE) if not path.stem.startswith("__"))
    for folder, count in folders.items():
        if count > MAX_FOLDER:
            yield f"{folder}: {count} modules, at most {MAX_FOLDER}"


def rooms() -> Iterator[tuple[str, int, int]]:
    """Yield each budget's rooms, their lines and their limit, which is 0 for a module that no budget covers."""
    left = {path: text.count("\n") for path, text, _ in modules(CODE)}
    for names, most in BUDGETS.items():
        own = [path for path in left for room in names.split() if path.match(room) or path.is_relative_to(room)]
        yield names, sum(left.pop(path) for path in own), most
    yield from ((path.as_posix(), lines, 0) for path, lines in left.items() if lines)


def breaches() -> Iterator[str]:
    """Yield each breach of a limit."""
    lengths: list[Function] = []
    for path, text, tree in modules(CODE):
        if (count := text.count("\n")) > MAX_MODULE:
            yield f"{path}: {count} lines, at most {MAX_MODULE}"
        if (broad := broad_excepts_of(tree)) > BROAD_EXCEPTS.get(path.as_posix(), 0):
            yield f"{path}: {broad} broad excepts, at most {BROAD_EXCEPTS.get(path.as_posix(), 0)}"
        yield from late_imports_of(path, tree)
        if path.as_posix().startswith(LIGHT) and asks_environment(tree):
            yield f"{path}: os.environ is the server's to ask"
        lengths.extend(functions_of(path, tree))
    yield from wide_folders()
    yield from (f"{names}: {lines:,} lines, at most {most:,}" for names, lines, most in rooms() if lines > most)
    yield from (
        f"{long.where}: {long.lines} lines, at most {MAX_FUNCTION}" for long in lengths if long.lines > MAX_FUNCTION
    )
    yield from (
        f"{many.where}: {many.parameters} parameters, at most {MAX_PARAMETERS}: make a value of them"
        for many in lengths
        if many.parameters > MAX_PARAMETERS
    )
    median, p90 = figures(lengths)
    if median > MAX_MEDIAN:
        yield f"functions: median of {median:.0f} lines, at most {MAX_MEDIAN}"
    if p90 > MAX_P90:
        yield f"functions: 90th percentile of {p90:.0f} lines, at most {MAX_P90}"
    for folder, most in BESIDE.items():
        if (lines := sum(text.count("\n") for _, text, _ in modules((folder,)))) > most:
            yield f"{folder}: {lines:,} lines, at most {most:,}"
    for path, text, _ in modules(("tests",)):
        if (count := text.count("\n")) > MAX_TEST_MODULE:
            yield f"{path}: {count} lines, at most {MAX_TEST_MODULE}"


def figures(functions: list[Function]) -> tuple[float, float]:
    """Return the median and the 90th percentile of the lengths."""
    lengths = [function.lines for function in functions]
    return statistics.median(lengths), statistics.quantiles(lengths, n=10)[-1]


def main() -> int:
    """Print the breaches and return the exit code."""
    if "--stats" in sys.argv:
        every = [function for path, _, tree in modules(CODE) for function in functions_of(path, tree)]
        median, p90 = figures(every)
        print(f"{len(every)} functions: median {median:.0f} lines, 90th percentile {p90:.0f}")
        for names, lines, most in rooms():
            print(f"{lines:>6,} of {most:>6,}  {names}")
        print(f"{sum(lines for _, lines, _ in rooms()):>6,} lines together")
    found = list(breaches())
    for breach in found:
        print(breach)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
