"""How long it takes to index a repository as code, for the first time, again, and after a change.

    python benchmarks/sources_code.py [--files 5000] [--repository DIR]

Without DIR a repository is made up: modules of Python, TypeScript, Go and Java of 12 functions with comments, seeded.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from made_banks import open_bank

from swarm_memory.schema.base import Scope
from swarm_memory.schema.source import IndexedSource
from swarm_memory.server.sources.code import read_code
from swarm_memory.server.sources.workers import Workers
from swarm_memory.tools.ports.sources import ReadGroup
from swarm_memory.tools.sources.sources import index_source
from swarm_memory.tools.toolbox import Toolbox

VERBS = ("load", "store", "merge", "split", "parse", "render", "send", "check", "open", "close", "count", "sort")
NOUNS = ("order", "user", "invoice", "cache", "page", "report", "queue", "image", "price", "route", "event", "task")
FORMS = {
    "py": ('def {name}(value):\n    """{doc}"""\n', "    {local} = value + {number}\n", "    return value\n\n\n"),
    "ts": (
        "/** {doc} */\nexport function {name}(value: number) {{\n",
        "  const {local} = value + {number};\n",
        "}}\n\n",
    ),
    "go": (
        "// {name} {doc}\nfunc {name}(value int) int {{\n",
        "\t{local} := value + {number}\n",
        "\treturn value\n}}\n\n",
    ),
    "java": (
        "/** {doc} */\nint {name}(int value) {{\n",
        "  int {local} = value + {number};\n",
        "  return value; }}\n\n",
    ),
}
FUNCTIONS, LINES = 12, 10
"""As many passages for each file as this repository has."""


def make_repository(folder: Path, files: int) -> None:
    """Write `files` source files in folders of 50."""
    chance = random.Random(7)
    for number in range(files):
        form = chance.choice(list(FORMS))
        parts = [_function(chance, form) for _ in range(FUNCTIONS)]
        text = "".join(parts)
        if form == "java":
            text = f"class Module{number} {{\n{text}}}\n"
        path = folder / f"part{number // 50}" / f"module{number}.{form}"
        path.parent.mkdir(exist_ok=True)
        path.write_text(("package part\n\n" if form == "go" else "") + text, "utf-8")


def _function(chance: random.Random, form: str) -> str:
    head, line, tail = FORMS[form]
    words = {"name": f"{chance.choice(VERBS)}{chance.choice(NOUNS).title()}{chance.randrange(1000)}"}
    words["doc"] = f"{chance.choice(VERBS)} the {chance.choice(NOUNS)} of a {chance.choice(NOUNS)}."
    body = "".join(
        line.format(local=f"{chance.choice(NOUNS)}{at}", number=chance.randrange(100)) for at in range(LINES)
    )
    return head.format(**words) + body + tail.format(**words)


async def index(toolbox: Toolbox, root: Path) -> tuple[IndexedSource, float]:
    async def groups() -> AsyncIterator[ReadGroup]:
        for group in read_code(root):
            yield group

    started = time.perf_counter()
    async with Workers() as workers:
        done = await index_source(toolbox, "code", str(root), groups(), prepare=workers)
    return done, time.perf_counter() - started


async def run(root: Path) -> None:
    started = time.perf_counter()
    passages = [len(group.parse()) for group in read_code(root)]
    print(f"only read: {len(passages)} files, {sum(passages)} passages, {time.perf_counter() - started:.1f} s")
    with tempfile.TemporaryDirectory() as folder:
        async with open_bank(Path(folder), Scope(project="speed")) as toolbox:
            for what in ("first time", "again"):
                done, seconds = await index(toolbox, root)
                print(
                    f"{what}: {done.added} added, {done.unchanged} unchanged, {done.passages} passages, {seconds:.1f} s"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description="Indexing of a repository as code")
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--repository", type=Path, help="a folder to index in place of a made-up one")
    given = parser.parse_args()
    if given.repository is not None:
        asyncio.run(run(given.repository))
        return
    with tempfile.TemporaryDirectory() as folder:
        make_repository(Path(folder), given.files)
        asyncio.run(run(Path(folder)))


if __name__ == "__main__":
    main()
