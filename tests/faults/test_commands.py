"""The real command line, server and hooks, started, stopped and killed: nothing is left behind or left half done."""

import asyncio
import json
import random
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from forked import CLI, STARTS, Forked, run
from hook_project import wait_until
from made_work import made_job
from patience import FULL
from stdio_server import CLIENT, Server

from swarm_memory.server.embedding.static import StaticEmbedder
from tests.faults.rig import HERE, Crowd, environment, filled, inspected, is_left_alone, made_item, opened, present

pytestmark = pytest.mark.fault

HOOKS = [*STARTS, "swarm_memory.server.hooks"]


def started(folder: Path) -> Server:
    """Start the server in a project, and retrieve memories."""
    pipe = subprocess.PIPE
    command = [*CLI, "--set", f"storage.project={HERE.project}", "serve"]
    server = Server(Forked(command, cwd=folder, env=environment(), stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL))
    server.request("initialize", CLIENT)
    server.send("notifications/initialized", {})
    query = {"query": "retry the token of the session"}
    server.request("tools/call", {"name": "retrieve_memories", "arguments": query})
    return server


async def test_servers_hooks_and_commands_killed_at_random_lose_nothing_and_hold_no_lock(
    database: Path, tmp_path: Path
) -> None:
    chance = random.Random(6)
    rounds, acknowledged, hooks = (60 if FULL else 3), list[str](), 0
    for number in range(rounds):
        items = [made_item(f"Round {number} memory {each}") for each in range(3)]
        export = tmp_path / f"export{number}.jsonl"
        export.write_text("".join(item.model_dump_json() + "\n" for item in items), "utf-8")
        null, variables = subprocess.DEVNULL, environment()
        event = json.dumps({"session_id": f"s{number}", "transcript_path": "", "cwd": str(tmp_path), "reason": "other"})
        server = started(tmp_path).process
        importing: subprocess.Popen[bytes] = subprocess.Popen(
            [*CLI, "--set", f"storage.project={HERE.project}", "import", str(export)],
            stdout=null, stderr=null, env=variables, cwd=tmp_path,
        )  # fmt: skip
        hook = run([*HOOKS, "session-start"], input=event.encode(), env=variables, cwd=tmp_path)
        hooks += hook.returncode == 0
        await asyncio.sleep(chance.uniform(0, 1.0))
        if chance.random() < 0.6:
            importing.kill()
        if await asyncio.to_thread(importing.wait) == 0:
            acknowledged += [item.id for item in items]
        server.kill()
        await asyncio.to_thread(server.communicate)
    assert is_left_alone(database)
    there, found = await present(database, acknowledged), await inspected(database)
    assert len(there) == len(acknowledged)
    assert found.sound, found
    assert hooks == rounds


async def test_a_server_that_is_killed_between_an_answer_and_its_vector_loses_none_and_the_next_makes_it(
    database: Path, tmp_path: Path
) -> None:
    answered, missing = list[str](), list[int]()
    for number in range(20 if FULL else 2):
        server = started(tmp_path)
        for verb in ("Lease", "Never lease"):
            said = server.call("remember", text=f"{verb} lane {number} before the push of the shop's parcels.")
            answered.append(said["structuredContent"]["id"])
        server.process.kill()
        await asyncio.to_thread(server.process.communicate)
        async with opened(database) as store:
            missing.append((await store.pending_upkeep(HERE, StaticEmbedder().name, 0)).not_embedded)
    server = started(tmp_path)
    await asyncio.to_thread(wait_until, lambda: server.call("memory_status")["structuredContent"]["not_embedded"] == 0)
    server.process.kill()
    await asyncio.to_thread(server.process.communicate)
    there, found = await present(database, answered), await inspected(database)
    assert found.sound, found
    assert len(there) == len(answered)
    assert any(missing), "each vector was there before the kill"


async def _lose_vectors(database: Path) -> None:
    async with opened(database) as store:
        await store.write(lambda connection: connection.execute("DELETE FROM pattern_embeddings").rowcount)
        await store.reindex()


@pytest.mark.parametrize("what", ["reembed", "consolidate", "matts"])
async def test_a_crash_in_long_work_leaves_a_whole_bank_and_the_work_is_done_by_the_next(
    database: Path, tmp_path: Path, what: str
) -> None:
    chance = random.Random(7)
    items = await filled(database, 400 if FULL else 150)
    command = [*CLI, "--set", f"storage.project={HERE.project}", *_arguments(what, tmp_path)]
    rounds, tries, cut, broken = (15 if FULL else 2), 0, 0, 0
    while cut < rounds and tries < 4 * rounds:
        tries += 1
        if what == "reembed":
            await _lose_vectors(database)
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        await asyncio.sleep(chance.uniform(0.1, 0.6))
        process.kill()
        cut += await asyncio.to_thread(process.wait) != 0
        inside = await inspected(database)
        broken += bool(inside.pages or inside.memories or inside.indexes)
    last = await asyncio.to_thread(run, command, cwd=tmp_path, env=environment(), text=True)
    found = await inspected(database)
    there = await present(database, [item.id for item in items])
    assert last.returncode == 0, last.stderr
    assert cut >= rounds // 2, f"only {cut} of {tries} were killed at work"
    assert broken == 0
    assert found.sound, found
    assert len(there) == len(items)
    await _is_done(what, database)


def _arguments(what: str, folder: Path) -> list[str]:
    if what != "matts":
        return [*(["bank"] if what == "reembed" else []), what, "--json"]
    agent = folder / "agent.py"
    agent.write_text("import time; time.sleep(0.2); print('I looked.')", "utf-8")
    command = f"{sys.executable} -I {agent}"
    given = ["--set", f"matts.allowed_commands={command}", "matts", "Look at the shop.", "--command", command]
    return [*given, "-k", "3", "--run-id", "run_FAULT", "--json"]


async def _is_done(what: str, database: Path) -> None:
    async with opened(database) as store:
        if what == "reembed":
            assert await store.vectors.without_vector("static-minilm-256-v1", 256, 10, 0) == []
        elif what == "matts":
            run = await store.get_run(HERE, "run_FAULT")
            assert run is not None
            assert run.status == "completed"
        else:
            query = "SELECT count(*) FROM events WHERE type LIKE '%consolidat%'"
            assert (await store.read(lambda connection: connection.execute(query).fetchone()))[0] > 0


async def test_jobs_of_killed_workers_are_taken_over_and_each_ends_once(database: Path) -> None:
    count, lease_s, chance, now = (120 if FULL else 24), 1.0, random.Random(8), datetime.now(UTC)
    async with opened(database) as store:
        for number in range(count):
            await store.enqueue(made_job(str(number), now, kind="fault"))
    crowd = Crowd()
    for number in range(4):
        crowd.add("claim", database, f"worker{number}", 0.05, lease_s)
    for number in range(12 if FULL else 3):
        crowd.wait(lambda wanted=4 * (number + 1): len(crowd.said("claimed")) >= wanted)
        crowd.kill(chance.choice(list(crowd.running)))
        crowd.add("claim", database, f"after{number}", 0.05, lease_s)
    await asyncio.to_thread(crowd.finish)
    claims = [tuple(line) for line in crowd.said("claimed")]
    ended = [line[0] for line in crowd.said("done") if line[1] == "True"]
    async with opened(database) as store:
        jobs = await store.list_jobs(HERE, ("queued", "running", "completed", "failed", "cancelled"), 500)
    completed = sum(job.status == "completed" for job in jobs)
    taken_over = sum(attempt != "1" for _, attempt in claims)
    assert completed == count
    assert len(claims) == len(set(claims))
    assert len(ended) == len(set(ended))
    assert taken_over <= crowd.killed
