"""The suite of learning: scenes in which a scripted agent meets things again, or real tasks where a folder is given."""

import hashlib
import os
import re
import shutil
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, get_args

import anyio
import anyio.to_thread
from pydantic import BeforeValidator, Field

from swarm_memory.schema.benchmark import SuiteResults
from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.job import Progress
from swarm_memory.server.benchmark import tasks
from swarm_memory.server.benchmark.outside import OutsideServer, OutsideSystem
from swarm_memory.server.benchmark.scene_memories import Nothing, OneFile, Ours, Outside, SceneMemory, Transcripts, ours
from swarm_memory.server.child_process import run
from swarm_memory.tools.benchmark.suite import Suite, SuiteContext, comma_list
from swarm_memory.tools.benchmark.suites.scene_agent import Call, Work
from swarm_memory.tools.benchmark.suites.scene_report import SceneReport, SceneResult
from swarm_memory.tools.benchmark.suites.scenes import HARMED, MET, Scene, Session, sessions
from swarm_memory.tools.text.tokens import count_tokens

_COMMAND_S = 20.0
_OUTPUT_BYTES = 100_000
_SCRIPT = re.compile(r"[\w-]+\.sh\b")
NOTHING = "nothing"
_ARMS: dict[str, str] = {
    NOTHING: "remembers nothing",
    "one file": "a CLAUDE.md: the agent adds its note after each session, and every session is told all of it",
    "transcripts": "the three transcripts that BM25 finds with the task, and with an error",
    "swarm-memory": "`serve` over MCP and the hooks that `install` writes; the agent calls remember for what the user "
    "wants kept, and where a page talks it into that",
    "hooks alone": "the same, and the agent calls nothing",
    "hooks and notes": "as swarm-memory, and the agent gives distill_memories its note of each error that it met",
}
"""By name how each is run."""


class LearningOptions(tasks.TaskOptions):
    """What is asked of the suite: with `tasks` those are done, else the scenes."""

    seeds: int = Field(default=8, ge=1, le=1000, description="Scenes: so many seeds, from seed on, every second one")
    arms: Annotated[tuple[str, ...], BeforeValidator(comma_list)] = Field(
        default=tuple(_ARMS), description=f"Scenes: {', '.join(_ARMS)}"
    )
    scenes: Annotated[tuple[Scene, ...], BeforeValidator(comma_list)] = Field(
        default=get_args(Scene), description=f"Scenes: {'; '.join(get_args(Scene))}"
    )
    outside: tuple[OutsideSystem, ...] = Field(default=(), description="Scenes: other memory servers; --config only")
    workers: int = Field(default=2, ge=1, le=16, description="Scenes: so many projects at a time")


@dataclass(slots=True)
class _SceneRun:
    """One run of the scenes while it goes on."""

    context: SuiteContext
    options: LearningOptions
    results: list[SceneResult] = field(default_factory=list[SceneResult])
    schemas: dict[str, int] = field(default_factory=dict[str, int])
    broken: dict[str, str] = field(default_factory=dict[str, str])
    """By arm what ended it."""
    remarks: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    done: int = 0

    @property
    def arms(self) -> dict[str, OutsideSystem | None]:
        return dict.fromkeys(self.options.arms) | {each.name: each for each in self.options.outside}

    def found(self) -> SuiteResults:
        """Return what there is by now, of arms that did not break."""
        order = [*self.arms]
        sound = [each for each in self.results if each.arm not in self.broken]
        sound.sort(key=lambda each: order.index(each.arm))
        schemas = {arm: tokens for arm, tokens in self.schemas.items() if arm not in self.broken}
        report = SceneReport(sound, base=NOTHING, schemas=schemas, seed=self.options.seed)
        return report.results().model_copy(
            update={"notes": tuple(self._notes()), "details": {"sessions": [asdict(each) for each in self.results]}}
        )

    def _notes(self) -> list[str]:
        told = [
            f"{arm}: {_ARMS[arm] if given is None else given.how or 'as its file says'}"
            for arm, given in self.arms.items()
        ]
        told += [f"{arm} broke and is left out: {said}" for arm, said in self.broken.items()]
        remarks = self.remarks.items()
        return told + [f"{arm}: {len(said)} times, such as: {said[0]}" for arm, said in remarks if said]

    async def run(self) -> SuiteResults:
        """Do all seeds in all arms. Raises `StorageError`; an outside server that fails ends its own arm alone."""
        first = self.options.seed
        work = [(arm, first + 2 * at) for at in range(self.options.seeds) for arm in self.arms]
        places = anyio.CapacityLimiter(self.options.workers)

        async def do(arm: str, seed: int) -> None:
            async with places:
                if arm not in self.broken:
                    await self._project(arm, seed)
                self.done += 1
                await self.context.report(Progress(done=self.done, total=len(work), message=f"{arm}: seed {seed}"))

        async with anyio.create_task_group() as group:
            for each in work:
                group.start_soon(do, *each)
        return self.found()

    async def _project(self, arm: str, seed: int) -> None:
        """Do all sessions of a seed in one arm; they count once all are done."""
        folder = self.context.folder / hashlib.sha256(f"{arm}-{seed}".encode()).hexdigest()[:12]
        found: list[SceneResult] = []
        try:
            async with self._memory(arm, folder) as memory:
                try:
                    self.schemas.setdefault(arm, count_tokens(await memory.schema()))
                    for each in sessions(seed):
                        if each.scene in self.options.scenes:
                            result = await _result(memory, each, folder / "project", arm, seed)
                            found += [result] * each.measured
                    self.remarks.setdefault(arm, []).extend(await memory.remarks())
                except ConfigError as error:  # not passed through the client, which would wrap it
                    self.broken[arm] = str(error)
                    return
        finally:
            await anyio.to_thread.run_sync(partial(shutil.rmtree, folder, ignore_errors=True))
        self.results += found
        self.context.keep(self.found())

    @asynccontextmanager
    async def _memory(self, arm: str, folder: Path) -> AsyncGenerator[SceneMemory]:
        """Open an arm's memory, empty, in a home of its own; a server's process ends with it."""
        home, project = folder / "home", folder / "project"
        for each in (home, project):
            each.mkdir(parents=True)
        outside = self.arms[arm]
        async with AsyncExitStack() as stack:
            match arm:
                case _ if outside is not None:
                    yield Outside(OutsideServer(outside, stack), home)
                case "one file":
                    yield OneFile()
                case "transcripts":
                    yield Transcripts()
                case "swarm-memory" | "hooks alone" | "hooks and notes":
                    server, calls = OutsideServer(ours(project, home), stack), arm != "hooks alone"
                    yield Ours(server, home, project=project, remembers=calls, notes=arm == "hooks and notes")
                case _:
                    yield Nothing()


async def _result(memory: SceneMemory, session: Session, project: Path, arm: str, seed: int) -> SceneResult:
    """Do one session, and let the memory take it in."""
    await anyio.to_thread.run_sync(_check_out, project, session)
    work = Work(session)
    work.told += await memory.begin(work)
    while (command := work.next()) is not None:
        if shown := await memory.before(work, command):
            work.told += shown
            command = work.next() or command
        work.see(await _ran(command, project))
        if work.calls[-1].code:
            work.told += await memory.failed(work)
    if (wanted := work.corrected()) is not None:
        work.see(await _ran(wanted, project))
    await memory.end(work)
    return SceneResult(
        arm=arm,
        seed=seed,
        scene=session.scene,
        name=session.name,
        met=(project / MET).exists(),
        harmed=(project / HARMED).exists(),
        failures=work.failures,
        calls=len(work.calls),
        told_tokens=sum(map(count_tokens, work.told)),
        told_other=bool({*_SCRIPT.findall("\n".join(work.told))} - {session.script}),
    )


def _check_out(project: Path, session: Session) -> None:
    """Make the project what it is at the time of a session, with nothing done in it yet."""
    for each in project.iterdir():
        if each.is_file():
            each.unlink()
    for name, text in session.files.items():
        (project / name).write_text(text, encoding="utf-8")
        (project / name).chmod(0o755)


async def _ran(command: str, project: Path) -> Call:
    """Run a command in the project. Raises `ConfigError` where there is no shell."""
    path = f"{project}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    try:
        with anyio.fail_after(_COMMAND_S):
            ran = await run(
                ["sh", "-c", command], stdin=b"", cwd=project, environment={"PATH": path, "LC_ALL": "C"},
                max_output_bytes=_OUTPUT_BYTES,
            )  # fmt: skip
    except OSError as error:
        raise InputError(f"scenes need a POSIX shell: sh cannot be started: {error.strerror}") from error
    return Call(command, (ran.output + ran.error).decode("utf-8", "replace").strip(), ran.code)


async def measure(context: SuiteContext, options: LearningOptions) -> SuiteResults:
    """Do the tasks of a folder, or the scenes. Raises `InputError`, `ConfigError`, `StorageError`."""
    if options.tasks is not None or options.command is not None or options.scenarios is not None:
        return await tasks.measure(context, options)
    unknown = sorted({*options.arms} - {*_ARMS})
    if unknown:
        raise InputError(f"option arms: there is no arm {unknown[0]!r}; there are {', '.join(_ARMS)}")
    return await _SceneRun(context, options).run()


SUITE = Suite(
    "learning",
    "whether an agent with memory does better when it meets things again, and what stale and poisoned memories cost",
    "scenes: some minutes, fewer seeds make it less; with a folder of tasks an agent or the chat model does each ten "
    "times and more: hours, and what its tokens cost; only by command",
    LearningOptions,
    measure,
)
