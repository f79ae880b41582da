"""Nobody but SQLite opens the files of a bank: closing another handle on them would drop SQLite's locks."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rig import environment

pytestmark = [pytest.mark.fault, pytest.mark.slow, pytest.mark.timeout(60)]

WATCHED = """
import os, sys
folder, library = sys.argv[1], "pysqlite3"
files = {os.path.join(folder, ".swarm", "memory.db" + suffix) for suffix in ("", "-wal", "-shm", "-journal")}
seen = {"opens": 0, "forbidden": []}

def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes, os.PathLike)):
        seen["opens"] += 1
        path, flags = os.path.abspath(os.fsdecode(arguments[0])), arguments[2] or 0
        # A file that is made with O_EXCL was not there: nobody has a lock on it.
        if path in files and not flags & os.O_EXCL:
            seen["forbidden"].append((event, path))
    elif event == "sqlite3.connect" and str(arguments[0]) != ":memory:":
        seen["forbidden"].append((event, str(arguments[0])))

sys.addaudithook(watch)
os.chdir(folder)

import asyncio
from pathlib import Path
from rig import EVERY, HERE, fill, opened
from swarm_memory.server import cli
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.placing import restore
from swarm_memory.server.storage.repair import repair

if choose().rung != "pysqlite3":
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
for command in (["status"], ["export"], ["retrieve", "retry the token"], ["reembed"], ["reindex"], ["memories", "list"],
                ["backup"], ["restore", "--yes"], ["doctor", "--repair"], ["consolidate"], ["jobs", "list"]):
    run(*command)
repair(database, choose(), 5.0)
restore(database, None, choose(), 5.0)
sys.stderr.write(f"{seen['opens']} {seen['forbidden']}\\n")
"""


async def test_no_file_of_a_bank_is_opened_but_by_sqlite(tmp_path: Path, record: Any) -> None:
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    command = [sys.executable, "-c", WATCHED, str(tmp_path)]
    done = await asyncio.to_thread(
        subprocess.run, command, env=environment(PYTHONPATH=paths), capture_output=True, text=True, check=False
    )
    if done.stdout.startswith("skip"):
        pytest.skip("the hook sees what Python's own sqlite3 opens, not whether it may")
    assert done.returncode == 0, done.stderr
    opens, _, forbidden = done.stderr.splitlines()[-1].partition(" ")
    record("A11", f"forbidden opens {forbidden.count('(')} of {opens}, over the store and 11 commands")
    assert forbidden == "[]"
