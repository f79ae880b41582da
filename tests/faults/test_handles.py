"""Only SQLite opens the files of a bank, and an unclosed connection keeps no process alive."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from patience import FULL

from tests.faults.rig import inspected, present, run_program

pytestmark = pytest.mark.fault

WATCHED = """
import os, sys
folder, library = sys.argv[1], "pysqlite3"
files = {os.path.join(folder, ".swarm", "memory.db" + suffix) for suffix in ("", "-wal", "-shm", "-journal")}
forbidden = []

def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
        path, flags = os.path.abspath(os.fsdecode(arguments[0])), arguments[2] or 0
        # A file that is made with O_EXCL was not there: nobody has a lock on it. Nor has anybody one on the log.
        if path in files and not flags & os.O_EXCL and not (path.endswith("-wal") and flags & 3 == os.O_RDONLY):
            forbidden.append((event, path))
    elif event == "sqlite3.connect" and str(arguments[0]) != ":memory:":
        forbidden.append((event, str(arguments[0])))

sys.addaudithook(watch)
os.chdir(folder)

import asyncio
from pathlib import Path
from tests.faults.rig import EVERY, HERE, fill, opened
from swarm_memory.server.cli import main as cli
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.care.repair import restore
from swarm_memory.server.storage.care.repair import repair

if choose().name != "pysqlite3":
    print("skip")
    sys.exit()

database = Path(folder, ".swarm", "memory.db")

async def use():
    async with opened(database) as store:
        items = await fill(store, 10)
        await store.back_up()
        await store.inspect()
        await store.forget([HERE], [items[0].id])
        await store.reindex()

def run(*arguments):
    sys.argv = ["swarm-memory", *arguments]
    try:
        cli.main()
    except SystemExit as ended:
        assert ended.code == 0, (arguments, ended.code)

asyncio.run(use())
for command in (["status"], ["memories", "export"], ["retrieve", "retry the token"], ["bank", "reembed", "--indexes"],
                ["memories", "list"], ["bank", "backup"], ["bank", "restore", "--yes"], ["doctor", "--repair"],
                ["consolidate"], ["jobs", "list"]):
    run(*command)
repair(database, choose(), 5.0)
restore(database, None, choose(), 5.0)
sys.stderr.write(f"{forbidden}\\n")
"""


async def test_no_file_of_a_bank_is_opened_but_by_sqlite(tmp_path: Path) -> None:
    done = await asyncio.to_thread(run_program, WATCHED, tmp_path)
    if done.stdout.startswith("skip"):
        pytest.skip("the hook sees what Python's own sqlite3 opens, not whether it may")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "[]"


UNCLOSED = """
import asyncio, sys
from pathlib import Path
from tests.faults.rig import made_item, with_vectors
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.sqlite import open_store

async def leave():
    store = await open_store(Path(sys.argv[1]), embedder=StaticEmbedder())
    for number in range(2):
        print(*await store.add_memories(await with_vectors([made_item(f"Unclosed {number}")]), store._embedder.name))
    match sys.argv[2]:
        case "error":
            raise RuntimeError("nobody catches this")
        case "exit":
            sys.exit(0)
        case "writing":
            asyncio.ensure_future(store.reindex())
            await asyncio.sleep(0)

asyncio.run(leave())
"""
ENDS = ("return", "error", "exit", "writing")


async def test_a_process_ends_though_nobody_closed_its_bank(database: Path) -> None:
    ends = ENDS * (5 if FULL else 1)
    with ThreadPoolExecutor(2) as pool:
        ended = pool.map(partial(run_program, UNCLOSED, database), ends)  # fails if the process does not end
        written = [memory_id for each in ended for memory_id in each.stdout.split()]
    found, there = await inspected(database), await present(database, written)
    assert len(there) == len(written) == 2 * len(ends)
    assert found.sound, found
