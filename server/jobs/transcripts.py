"""The jobs that read transcripts: learning from one, and importing many together with exports of memories."""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pydantic import JsonValue

from swarm_memory.schema.errors import InputError, QuotaReached
from swarm_memory.schema.job import LEARN, Job, Progress, Report
from swarm_memory.schema.memory import LearnResult
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.host import hosts, transcript_folders
from swarm_memory.server.hosts.paths import check_place, checked_transcript
from swarm_memory.server.hosts.records import as_text, first_record
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.server.streaming import in_thread
from swarm_memory.tools.learn.learn import TaskFaults
from swarm_memory.tools.learn.worth import is_worth_asking
from swarm_memory.tools.memories.remember import Session
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.ports.records import HostSession
from swarm_memory.tools.tasks.verdict import judge_again
from swarm_memory.tools.tool_memory.log import learn_and_log
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.reading import Reading, read

if TYPE_CHECKING:
    from swarm_memory.tools.memories.transfer import Imported

IMPORT = "import"

_NOT_ENTERED = {".git", ".swarm", "node_modules"}

log = logging.getLogger(__name__)


async def learn_from_job(
    toolbox: Toolbox, job: Job, *, root: Path, model: Callable[[], ChatModel | None] = lambda: None
) -> Mapping[str, JsonValue]:
    """Learn from what the payload names: `transcript_path`, `session_id` and, for one task only, `task_id`.

    The path must be in a host's folder of transcripts or below the project's `root`. Tool calls are logged. What was
    learned or logged before is skipped. `model` is called for tasks that are worth it, each in a job of its own, within
    whose time limit the model must answer; the others are learned from by rules. Raises `InputError` when the
    transcript or the task does not exist.
    """
    path, session_id, task_id = (
        as_text(job.payload.get(name)) or None for name in ("transcript_path", "session_id", "task_id")
    )
    if path is None:
        raise InputError("the job names no transcript_path")
    checked = Path(checked_transcript(path, transcript_folders(root)))
    statuses: dict[str, JsonValue] = {}
    stored: list[JsonValue] = []
    calls, chat, contained = 0, model(), TaskFaults()

    async def learned(trajectory: Trajectory) -> LearnResult | None:
        reading = read(trajectory)
        asked = chat is not None and await asyncio.to_thread(is_worth_a_model, reading)
        if asked and task_id is None:
            await toolbox.queue(LEARN, trajectory.task_id, {**job.payload, "task_id": trajectory.task_id})
            statuses[trajectory.task_id] = "queued: a model will be asked about it"
            return None
        return await learn_and_log(replace(toolbox, chat=chat if asked else None), reading)

    tasks = partial(read_trajectories, checked, task_id, session_id=session_id)
    async for trajectory in in_thread(tasks):
        result = await contained.answer(trajectory.task_id, learned(trajectory))
        if result is not None:
            calls += result.calls
            statuses[result.task_id] = f"{result.status}: {result.verdict.label}"
            stored.extend(item.id for item in result.stored)
    answer: dict[str, JsonValue] = {"tasks": statuses, "stored": stored, "calls": calls}
    return answer | ({"fault": contained.notice} if contained.notice else {})


async def session_so_far(session: HostSession | None, folders: Sequence[Path], root: Path) -> Session:
    """Return what is known of a host's session: its transcript so far, and the prompt that its hooks saw.

    If the transcript cannot be read, only the prompt is known.
    """
    if session is None:
        return Session(root=str(root))
    prompts = () if session.task_id is None else (session.task,)
    path = session.transcript_path

    def read_so_far() -> list[Trajectory]:
        if path is None or not Path(path).exists():
            return []
        return list(read_trajectories(Path(checked_transcript(path, folders)), subagents=False))

    done: list[Trajectory] = []
    try:
        done = await asyncio.to_thread(read_so_far)
    except InputError as error:
        log.warning("a session's transcript cannot be read: %s", error)
    return Session(session.session_id, session.task_id, tuple(done), prompts, str(root))


def is_worth_a_model(given: Trajectory | Reading) -> bool:
    """Whether a finished task is worth a call to a model, where one may be called."""
    reading = read(given)
    said = (step.text for step in reading.trajectory.steps if step.kind == "message" and step.role == "user")
    return is_worth_asking([call.failed for call in reading.calls], said)


async def queue_session(toolbox: Toolbox, session_id: str, transcript_path: str) -> None:
    """Make the jobs of a session's tasks due, and queue one for its whole transcript, to catch what they missed."""
    await toolbox.store.release(toolbox.scope, f"{session_id}:", toolbox.clock.now())
    payload = {"transcript_path": transcript_path, "session_id": session_id}
    await toolbox.queue(LEARN, f"{session_id}:all", payload)


@dataclass
class Tally:
    """What became of the files: of the tasks in transcripts, and of each export."""

    files: int = 0
    """Transcripts that were read to their end."""
    tasks: int = 0
    verdicts: dict[str, int] = field(default_factory=dict[str, int])
    stored: int = 0
    known: int = 0
    calls: int = 0
    """Tool calls that were not logged before."""
    without_failed_call: int = 0
    """How many tasks had no failed call."""
    worth_a_model: int = 0
    """Tasks that rules left undecided and no model was called for, though they are worth it."""
    faults: dict[str, str] = field(default_factory=dict[str, str])
    exports: "dict[str, Imported]" = field(default_factory=dict[str, "Imported"])


def files_of(paths: Iterable[Path]) -> list[Path]:
    """Return the files to read: in a folder all JSON Lines files, except subagents', which go with their session's."""
    found: set[Path] = set()
    for path in paths:
        for where, folders, files in os.walk(path):  # yields nothing for a file
            folders[:] = [each for each in folders if each not in _NOT_ENTERED]
            found |= {Path(where, file) for file in files if file.endswith(".jsonl")}
        if not path.is_dir():
            found.add(path)
    beside = {each for host in hosts() for file in found for each in host.transcripts.subagents(file)}
    return sorted(found - beside)


def is_memory_export(path: Path) -> bool:
    """Whether the first line of a file is a memory as `memories export` writes it."""
    record = first_record(path)
    return record.text("id").startswith("rm_") and {"title", "content"} <= record.keys()


async def import_files(
    toolbox: Toolbox,
    files: Sequence[Path],
    quarantine: bool,
    report: Report,
    *,
    since: datetime | None = None,
    on_learned: Callable[[LearnResult], None] | None = None,
) -> Tally:
    """Import each file; what was learned or read before is recognized. Each file that cannot be read becomes a fault.

    A model is called for tasks that are worth it, as in background learning. Tasks that ended before `since` are left
    out; `on_learned` receives the result of each of the others.
    """
    from swarm_memory.tools.memories.transfer import import_memories

    tally = Tally()
    for number, file in enumerate(files):
        await report(Progress(done=number, total=len(files), message=file.name))
        contained = TaskFaults()
        try:
            if is_memory_export(file):
                with file.open(encoding="utf-8-sig", errors="replace") as lines:
                    found = await import_memories(toolbox, lines, source=file.name, quarantine=quarantine)
                tally.exports[str(file)] = found
                continue
            async for trajectory in in_thread(partial(read_trajectories, file)):
                if since is not None and trajectory.ended_at is not None and trajectory.ended_at < since:
                    continue
                result = await contained.answer(trajectory.task_id, _learned(toolbox, trajectory, tally))
                if result is not None and on_learned is not None:
                    on_learned(result)
            tally.files += 1
            if contained.notice is not None:
                tally.faults[str(file)] = contained.notice
        except (InputError, QuotaReached, OSError) as error:
            tally.faults[str(file)] = str(error)
    await report(Progress(done=len(files), total=len(files), message="all read"))
    return tally


async def _learned(toolbox: Toolbox, trajectory: Trajectory, tally: Tally) -> LearnResult | None:
    """Learn from a task and add the result to the tally; None if the host's connection broke the task off."""
    reading = read(trajectory)
    worth = await asyncio.to_thread(is_worth_a_model, reading)
    asked = worth and toolbox.chat is not None
    result = await learn_and_log(toolbox if asked else replace(toolbox, chat=None), reading)
    if result.status == "broken_off":
        return None
    is_open = worth and (result.verdict.label, result.verdict.judge) == ("Undecided", "evidence")
    if asked and is_open and result.status == "already_learned":  # only rules judged it
        again = await judge_again(toolbox, result.task_id)
        stored = tuple(await toolbox.store.get_memories((toolbox.scope,), again.stored))
        result = result.model_copy(update={"status": "learned", "verdict": again.verdict, "stored": stored})
    tally.without_failed_call += not any(call.failed for call in reading.calls)
    tally.worth_a_model += is_open and not asked
    tally.tasks += 1
    tally.verdicts[result.verdict.label] = tally.verdicts.get(result.verdict.label, 0) + 1
    tally.stored += len(result.stored)
    tally.known += result.status == "already_learned"
    tally.calls += result.calls
    return result


def as_row(tally: Tally) -> dict[str, JsonValue]:
    """Return what became of the files as JSON."""
    transcripts: dict[str, JsonValue] = asdict(tally)
    return {"exports": transcripts.pop("exports"), "transcripts": transcripts}


def checked_files(paths: Sequence[str], root: Path) -> list[Path]:
    """Return the files to read. Raises `InputError` if there are none, or one is where no transcript may be."""
    for path in paths:
        check_place(path, transcript_folders(root))  # before the folder is walked
    found = files_of(map(Path, paths))
    if not found:
        raise InputError(f"there are no .jsonl files below {', '.join(paths)}")
    return [Path(checked_transcript(str(path), transcript_folders(root))) for path in found]


async def import_given(toolbox: Toolbox, job: Job, report: Report, *, root: Path) -> Mapping[str, JsonValue]:
    """Import the payload's `paths`: transcripts, exports and folders of them, in the host's folder or the project."""
    named = job.payload.get("paths")
    if not isinstance(named, list) or not named:
        raise InputError("the job names no paths")
    files = checked_files([str(path) for path in named], root)
    claims = cast("list[str]", job.payload.get("speakers") or [])
    later = replace(toolbox, wake=lambda: None, speakers=tuple(claims))  # another job makes the vectors
    return as_row(await import_files(later, files, job.payload.get("quarantine") is True, report))
