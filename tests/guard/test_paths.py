"""No secret of any kind reaches the file, an export, the log, an error or a request body, whichever way it came in."""

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from claude_lines import call as used
from claude_lines import prompt as asked
from claude_lines import result as answered
from claude_lines import says, write
from hooked import hooked
from laid_bank import opened_bank
from made_items import made_item
from mcp.client import Client
from patience import FULL
from scripted_chat import InMemoryMeter
from scripted_runs import Script
from scripted_server import ScriptedServer, completion
from secret_lines import VENDORS

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import SwarmMemoryError
from swarm_memory.schema.job import Job
from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.settings import ChatProviderSettings, EmbeddingSettings, Settings
from swarm_memory.schema.source import Passage
from swarm_memory.schema.tool_memory import ReportedCall
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.chat.openai import OpenAIChatModel
from swarm_memory.server.embedding.endpoint import OpenAIEmbedder
from swarm_memory.server.mcp.app import build_server
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.server.wiring import make_worker, open_toolbox, opened_toolbox, place_of
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.memories.decide import MemoryChange, edit
from swarm_memory.tools.memories.transfer import export_memories, import_memories
from swarm_memory.tools.ports.sources import ReadGroup
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.sources.sources import index_source, search_sources
from swarm_memory.tools.tool_memory.log import log_tool_calls
from swarm_memory.tools.toolbox import Toolbox

pytestmark = [pytest.mark.attack, pytest.mark.allow_hosts(["127.0.0.1"])]

PERSONAL = ("maria.kovacs@mail.example.org", "4111 1111 1111 1111", "DE89 3704 0044 0532 0130 00")
HERE = Scope(project="shop")


def secrets(seed: int = 99) -> dict[str, str]:
    """Return one secret in each vendor's format, and personal data."""
    random_ = random.Random(seed)
    made = {kind: make(random_) for kind, make in VENDORS.items()}
    return {**made, **{f"personal {number}": text for number, text in enumerate(PERSONAL)}}


def lines_of(made: Iterable[str]) -> str:
    return "\n".join(f"export X={secret}" for secret in made)


def parts(made: Mapping[str, str], size: int = 24) -> Iterator[str]:
    ordered = [made[kind] for kind in sorted(made)]
    for start in range(0, len(ordered), size):
        yield lines_of(ordered[start : start + size])


async def _drive(toolbox: Toolbox, made: Mapping[str, str]) -> list[str]:
    """Put every secret in by every way; return the exports, answers and errors that came out."""
    out: list[str] = []
    for number, part in enumerate(parts(made)):
        run = Script(f"deploy {part}", f"t{number}")
        trajectory = run.call("Bash", {"command": f"deploy\n{part}"}, f"Error: {part}", error=True).done()
        draft = MemoryDraft(title=f"Deploy part {number}", content=f"1. Set the variables\n{part}", tags=(part[:60],))
        out.append((await learn(toolbox, trajectory, agent_drafts=[draft])).model_dump_json())
        again = trajectory.model_copy(update={"task_id": f"m{number}"})
        out.append((await learn(toolbox, again)).model_dump_json())
        again = trajectory.model_copy(update={"task_id": f"v{number}"})
        own = Verdict(label="Failure", confidence=0.8, judge="agent", reasons=tuple(part.splitlines()[:20]))
        out.append((await learn(toolbox, again, agent_verdict=own)).model_dump_json())
        item = made_item(f"Imported {number}", scope=HERE, description=part[:400], content=part)
        out.append(repr(await import_memories(toolbox, [item.model_dump_json(), part], source="x.jsonl")))
        out.append(
            (await edit(toolbox, item.id, MemoryChange(content=f"Now\n{part}"), part)).items[0].model_dump_json()
        )
        call = ReportedCall(tool_name="deploy", input={"text": part}, output=part, success=False, task_id=f"t{number}")
        out.append(repr(await log_tool_calls(toolbox, [call])))
        await index_source(toolbox, "document", "notes.md", _source(number, part))
        out.append(repr(await search_sources(toolbox, f"notes {part}")))
        out.append((await retrieve(toolbox, f"deploy {part}", task_id=f"r{number}")).model_dump_json())
        try:
            await edit(toolbox, item.id, MemoryChange(title=part * 30))
        except SwarmMemoryError as error:
            out.append(str(error))
    out += [line async for line in export_memories(toolbox)]
    return out


async def _source(number: int, text: str) -> AsyncIterator[ReadGroup]:
    def parse() -> list[Passage]:
        made = Passage(kind="document", group="notes", position=0, title="Notes", description=text[:200], content=text)
        return [made.model_copy(update={"data": {"said": text}})]

    yield "notes", str(number), parse


def leaked(made: Mapping[str, str], texts: Sequence[str], *bodies: bytes) -> set[str]:
    """Return the kinds whose secret is in any of the texts or bytes, plain or in JSON's escaped form."""
    whole = "\n".join(texts).encode("utf-8", "replace") + b"\n".join(bodies)
    found: set[str] = set()
    for kind, secret in made.items():
        forms = {secret, json.dumps(secret)[1:-1]}
        if any(form.encode() in whole for form in forms):
            found.add(kind)
    return found


def test_the_search_for_leaks_finds_a_leak() -> None:
    assert leaked(secrets(), [lines_of([secrets()["github classic"]])]) == {"github classic"}


async def test_no_secret_is_left_anywhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    rounds, found = (12 if FULL else 1), dict[str, int]()
    for seed in range(99, 99 + rounds):
        made, folder = secrets(seed), tmp_path / str(seed)
        for way, texts in (await _ways(folder, made)).items():
            found[way] = found.get(way, 0) + len(leaked(made, texts))
        found["log"] = found.get("log", 0) + len(leaked(made, [caplog.text]))
        caplog.clear()
        files = await asyncio.to_thread(lambda: [path.read_bytes() for path in folder.rglob("*") if path.is_file()])  # noqa: B023
        assert len(files) > 1
        found["files"] = found.get("files", 0) + len(leaked(made, [], *files))
    assert not any(found.values()), found


async def _ways(folder: Path, made: Mapping[str, str]) -> dict[str, list[str]]:
    """Put the secrets in by every way; return what came out, by the way out."""
    shown = '{"label": "Failure", "confidence": 0.9, "reasons": ["s3: it failed"]}'
    async with ScriptedServer([completion(shown)] * 60) as server:
        model = OpenAIChatModel(
            ChatProviderSettings.model_validate({"provider": "openai", "model": "m", "base_url": f"{server.url}/v1"}),
            "none",
            InMemoryMeter(),
            retries=0,
        )
        async with opened_bank(folder / "memory.db", scope=HERE, chat=model) as toolbox:
            out = await _drive(toolbox, made)
        sent = [json.dumps(request.body, ensure_ascii=False) for request in server.requests]
    assert len(sent) > 10
    hooked = await _by_the_host(folder / "shop", made)
    return {"answers, exports, errors": out, "chat requests": sent, "answers to hooks": hooked}


async def _by_the_host(folder: Path, made: Mapping[str, str]) -> list[str]:
    """Let hooks and a transcript carry the secrets to a server, as Claude Code does; return the server's answers."""
    await asyncio.to_thread(folder.mkdir)
    settings, said = Settings(), list[str]()
    place = place_of(folder, settings)
    bank = ServedBank(lambda: open_toolbox(place, settings), lambda toolbox: make_worker(toolbox, place), place.root)
    server = build_server(bank)
    async with Client(server) as client:

        async def call(tool: str, **arguments: Any) -> None:
            said.append((await client.call_tool(tool, arguments)).model_dump_json())

        for number, part in enumerate(parts(made)):
            shown = {"session_id": f"s{number}", "prompt": f"Deploy it\n{part}", "hook_event_name": "UserPromptSubmit"}
            async with opened_toolbox(place, settings) as toolbox:
                said.append(json.dumps(await hooked(toolbox, shown)))
                lines = [asked(f"Deploy it\n{part}"), says(used("t1", f"deploy\n{part}")), answered("t1", part)]
                lines += [says(used("t2", part)), answered("t2", f"Exit code 1\n{part}", error=True)]
                session = await asyncio.to_thread(write, folder / f"h{number}.jsonl", lines)
                await hooked(toolbox, {**shown, "hook_event_name": "SessionEnd", "transcript_path": str(session)})
                await make_worker(toolbox, place).work_off_due()
                done = await _done(toolbox)
                assert (number + 1) * 2 == sum(
                    int(str((job.result or {})["calls"])) for job in done if job.kind == "learn"
                )
                said.extend(job.model_dump_json() for job in done)
                await asyncio.to_thread(session.unlink)
            path = folder / f"s{number}.jsonl"
            steps = [{"role": "user", "content": f"no, {part}"}, {"role": "assistant", "content": f"deployed {part}"}]
            text = json.dumps({"id": f"x{number}", "task": f"Deploy {part}", "steps": steps})
            await asyncio.to_thread(path.write_text, text, "utf-8")
            await call("learn_from_trajectory", transcript_path=str(path))
            await asyncio.to_thread(path.unlink)
        await call("manage_memories", action="list")
        await call("memory_status")
        await call("summarize_tool_memory")
        await call("retrieve_tool_memory", task="Deploy it")
    return said


async def _done(toolbox: Toolbox) -> Sequence[Job]:
    """Return the ended jobs once none is running: the server's own worker may have taken one."""
    async with asyncio.timeout(60):
        while await toolbox.store.list_jobs(toolbox.scope, ("running",), 1):  # noqa: ASYNC110 - another worker ends them
            await asyncio.sleep(0.01)
    return await toolbox.store.list_jobs(toolbox.scope, ("completed", "failed"), 100)


async def test_an_embedding_endpoint_gets_no_secret_and_its_errors_tell_none(tmp_path: Path) -> None:
    async with ScriptedServer([]) as server:
        options = EmbeddingSettings(provider="openai", model="small", base_url=f"{server.url}/v1", dimensions=8)
        embedder = OpenAIEmbedder(options, "none")
        async with opened_bank(tmp_path / "memory.db", embedder=embedder, scope=HERE) as toolbox:
            part = next(parts(secrets(), 200))
            found = await retrieve(toolbox, f"deploy {part}")
            draft = MemoryDraft(title="Deploy", content=f"1. Set the variables\n{part[:3500]}")
            said = await learn(toolbox, Trajectory(task_id="t", task=part), agent_drafts=[draft])
        await embedder.aclose()
        sent = [json.dumps(request.body, ensure_ascii=False) for request in server.requests]
    assert sent
    assert leaked(secrets(), [*sent, found.model_dump_json(), said.model_dump_json()]) == set()
