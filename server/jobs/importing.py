"""Taking in many files at once: transcripts are learned from, exports are read. It knows no queue and no screen."""

import os
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pydantic import JsonValue

from swarm_memory.schema.errors import InputError, QuotaReached

if TYPE_CHECKING:
    from swarm_memory.tools.memories.transfer import Imported
    from swarm_memory.tools.toolbox import Toolbox

OnFile: TypeAlias = Callable[[int, Path], Awaitable[None]]
"""Is told before each file how many are done."""


@dataclass
class Tally:
    """What became of the files: of the tasks of transcripts, and of each export."""

    files: int = 0
    """Transcripts."""
    tasks: int = 0
    verdicts: dict[str, int] = field(default_factory=dict[str, int])
    stored: int = 0
    known: int = 0
    calls: int = 0
    """Tool calls that were not logged before."""
    faults: dict[str, str] = field(default_factory=dict[str, str])
    exports: "dict[str, Imported]" = field(default_factory=dict[str, "Imported"])


def host_projects() -> Path:
    """Return the folder in which Claude Code keeps the transcripts of all projects."""
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "projects"


def transcript_folders(root: Path) -> list[Path]:
    """Return the folders in which Claude Code keeps the transcripts of a project: `/` and other signs become `-`."""
    names = {re.sub(r"[^A-Za-z0-9]", "-", str(root)), str(root).replace("/", "-")}
    return [folder for folder in (host_projects() / name for name in sorted(names)) if folder.is_dir()]


def files_of(paths: Iterable[Path]) -> list[Path]:
    """Return the files that are meant: of a folder its `.jsonl` files."""
    return sorted({file for path in paths for file in (path.glob("*.jsonl") if path.is_dir() else (path,))})


async def import_files(
    toolbox: "Toolbox", files: Sequence[Path], *, quarantine: bool = False, on_file: OnFile | None = None
) -> Tally:
    """Take in each file; what was learned or read before is known. A file that cannot be read is a fault of its own."""
    from swarm_memory.server.hosts.transcript import read_trajectories
    from swarm_memory.server.streaming import in_thread
    from swarm_memory.tools.learn.learn import learn
    from swarm_memory.tools.tool_memory.history import log_calls_of

    tally = Tally()
    for number, file in enumerate(files):
        if on_file is not None:
            await on_file(number, file)
        try:
            if _is_export(file):
                tally.exports[str(file)] = await _read_export(toolbox, file, quarantine)
                continue
            tally.files += 1
            async for trajectory in in_thread(partial(read_trajectories, file, limits=toolbox.settings.learn)):
                result = await learn(toolbox, trajectory)
                tally.tasks += 1
                tally.verdicts[result.verdict.label] = tally.verdicts.get(result.verdict.label, 0) + 1
                tally.stored += len(result.stored)
                tally.known += result.status == "already_learned"
                tally.calls += await log_calls_of(toolbox, trajectory)
        except (InputError, QuotaReached, OSError) as error:
            tally.faults[str(file)] = str(error)
    return tally


def as_row(tally: Tally) -> dict[str, JsonValue]:
    """Return what became of the files as JSON."""
    exports: dict[str, JsonValue] = {
        file: {
            "run_id": each.run_id,
            "added": each.added,
            "known": each.known,
            "faulty": each.faulty,
            "faults": [*each.faults],
            "notices": [*each.notices],
        }
        for file, each in tally.exports.items()
    }
    transcripts: dict[str, JsonValue] = {
        "files": tally.files,
        "tasks": tally.tasks,
        "verdicts": {**tally.verdicts},
        "stored": tally.stored,
        "known": tally.known,
        "calls": tally.calls,
        "faults": {**tally.faults},
    }
    return {"transcripts": transcripts, "exports": exports}


def _is_export(path: Path) -> bool:
    """Tell by its first line whether a file holds memories."""
    with path.open("rb") as file:
        head = file.read(4096)
    return head.lstrip().startswith(b'{"id":"rm_')


async def _read_export(toolbox: "Toolbox", file: Path, quarantine: bool) -> "Imported":
    from swarm_memory.tools.memories.transfer import import_memories

    with file.open(encoding="utf-8", errors="replace") as lines:
        return await import_memories(toolbox, lines, source=file.name, quarantine=quarantine)
