"""A bank with the same text wherever it stores text, to test what the viewer's pages make of it."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

from made_items import made_item

from swarm_memory.schema.base import new_id
from swarm_memory.schema.benchmark import BenchmarkRun, DatasetInfo, SuiteResults, Table
from swarm_memory.schema.job import JobEnd
from swarm_memory.schema.memory import MemoryLink, Provenance
from swarm_memory.schema.source import Passage
from swarm_memory.schema.tool_memory import ReportedCall
from swarm_memory.schema.trajectory import Step, Trajectory, Verdict
from swarm_memory.tools.ports.records import HostSession, LearnRecord, UpkeepBatch
from swarm_memory.tools.ports.sources import ReadGroup
from swarm_memory.tools.retrieve.embed import prepare
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.sources.sources import index_source
from swarm_memory.tools.tool_memory.log import log_tool_calls
from swarm_memory.tools.toolbox import Toolbox


async def lay_everywhere(toolbox: Toolbox, texts: Sequence[str]) -> None:
    """Write each text wherever text may be, bypassing cleaning and screening, as in a bank that somebody crafted."""
    for number, text in enumerate(texts):
        await _learned(toolbox, number, text)
    for text in texts[:3]:
        await _beside(toolbox, text)
    await retrieve(toolbox, texts[0], task_id="task-0", session_id="session-0")


async def _learned(toolbox: Toolbox, number: int, text: str) -> None:
    """Write a task with a verdict and what it taught: an active memory, a quarantined one, and their contradiction."""
    now, failed = datetime.now(UTC), f"{text}\nError: {text}"
    steps = (
        Step(id="s1", kind="message", role="user", text=text),
        Step(id="s2", kind="tool_call", role="assistant", tool_name=text, tool_input={text: text}, call_id="c1"),
        Step(id="s3", kind="observation", role="tool", text=failed, is_error=True, exit_code=1, call_id="c1"),
        Step(id="s4", kind="thought", role="assistant", text=text),
        Step(id="s5", kind="message", role="assistant", text=text),
    )
    task = Trajectory(
        task_id=f"task-{number}", task=text, steps=steps, session_id=f"session-{number}", agent_id=text, source="codex"
    )
    source = Provenance(task_id=task.task_id, trajectory_id=f"tr_{number}", evidence=("s2", "s3"), judge="evidence")
    items = [
        made_item(
            f"{text} {status}",
            scope=toolbox.scope,
            description=text,
            content=f"1. {text}\n2. `{text}`",
            tags=(text,),
            domain=text,
            status=status,
            status_reason=text,
            provenance=source,
        )
        for status in ("active", "quarantined")
    ]
    verdict = Verdict(label="Failure", confidence=0.8, reasons=(text,), evidence=("s3",), judge="evidence")
    await toolbox.store.save_learning(
        LearnRecord(
            scope=toolbox.scope,
            run_id=f"run-{number}",
            trajectory_id=f"tr_{number}",
            trajectory=task,
            verdict=verdict,
            embedder=toolbox.embedder.name,
            memories=tuple(await prepare(toolbox, items)),
            reinforced=(),
            reinforcement=0.0,
            at=now,
        )
    )
    link = MemoryLink(src_id=items[0].id, dst_id=items[1].id, relation="contradicts", weight=0.9)
    await toolbox.store.write_upkeep(toolbox.scope, UpkeepBatch(f"run-{number}", now, links=(link,)))
    call = ReportedCall(tool_name=text, input={text: text}, output=text, success=False, task=text)
    await log_tool_calls(toolbox, [call])


async def _beside(toolbox: Toolbox, text: str) -> None:
    """Write a session, a source, a failed job and a run of a benchmark."""
    now = datetime.now(UTC)
    await toolbox.store.put_session(
        HostSession(session_id=text[:200], scope=toolbox.scope, transcript_path=text, task=text, updated_at=now)
    )

    async def groups() -> AsyncIterator[ReadGroup]:
        passage = Passage(
            kind="document", group=text, position=0, title=text, description=text, content=text, path=text
        )
        yield text, "1", lambda: [passage]

    await index_source(toolbox, "document", text, groups())
    await toolbox.queue("learn", text, {text: text})
    job = await toolbox.store.claim("worker", datetime.now(UTC), 60, ["learn"], toolbox.scope)
    assert job is not None
    await toolbox.store.finish(job.id, "worker", JobEnd("failed", {text: text}, text))
    await toolbox.store.benchmarks.save_benchmark(toolbox.scope, hostile_run(text))


def hostile_run(text: str) -> BenchmarkRun:
    """Return a benchmark run with a text wherever text may be."""
    results = SuiteResults(
        dataset=DatasetInfo(name=text, hash=text, items=1, questions=1),
        tables=(Table(title=text, headings=(text, text), rows=((text, "1"), (text,)), note=text),),
        notes=(text,),
    )
    return BenchmarkRun(
        run_id=new_id("bench"),
        suite=text,
        status="failed",
        options={text: text},
        settings={text: text},
        seed=7,
        versions={text: text},
        machine={text: text},
        started_at=datetime.now(UTC),
        results=results,
        error=text,
    )
