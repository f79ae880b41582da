"""`export` and `import`: a bank as JSON lines, and all transcripts of a project."""

import os
import re
import sys
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from swarm_memory.schema.errors import InputError
from swarm_memory.server.console import json_option, print_json, say
from swarm_memory.server.invocation import Invocation

if TYPE_CHECKING:
    from swarm_memory.tools.toolbox import Toolbox
    from swarm_memory.tools.transfer import Imported


@click.command()
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file instead of the output.")
@click.option("--own-only", is_flag=True, help="Leave out the global memories.")
@click.pass_obj
def export(invocation: Invocation, output: Path | None, own_only: bool) -> None:
    """Write all memories, whatever their status, as JSON, one a line.

    \b
    Example:
      swarm-memory export > memories.jsonl
    """
    from swarm_memory.tools.transfer import export_memories

    async def operate(toolbox: "Toolbox") -> int:
        count = 0
        with click.open_file(str(output or "-"), "w", encoding="utf-8", atomic=output is not None) as file:
            async for line in export_memories(toolbox, with_global=not own_only):
                file.write(line + "\n")
                count += 1
        return count

    count = invocation.run(operate)
    if output is not None:
        say(f"{count} memories written to {output}.")


@dataclass
class Tally:
    """What became of the tasks of all transcripts."""

    files: int = 0
    tasks: int = 0
    verdicts: dict[str, int] = field(default_factory=dict[str, int])
    stored: int = 0
    known: int = 0
    faults: dict[str, str] = field(default_factory=dict[str, str])


@click.command("import")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--quarantine", is_flag=True, help="Of an export: retrieve nothing before it is restored.")
@json_option
@click.pass_obj
def import_(invocation: Invocation, paths: tuple[Path, ...], quarantine: bool, as_json: bool) -> None:
    """Learn from all transcripts of this project, or read PATHS: exports, transcripts, folders of transcripts.

    Doing it again changes nothing: what was learned or read before is known.

    \b
    Examples:
      swarm-memory import
      swarm-memory import ~/.claude/projects/-home-me-shop
      swarm-memory import memories.jsonl --quarantine
    """
    given = paths or tuple(transcript_folders(invocation.root))
    if not given:
        raise InputError(f"no transcripts of {invocation.root} in {_host_projects()}; name files or folders")
    files = sorted({file for path in given for file in _files(path)})
    exports = [file for file in files if _is_export(file)]
    transcripts = [file for file in files if file not in exports]

    async def operate(toolbox: "Toolbox") -> "tuple[Tally, dict[str, Imported]]":
        read = {str(file): await _read_export(toolbox, file, quarantine) for file in exports}
        return await _learn_from(toolbox, transcripts, as_json), read

    tally, read = invocation.run(operate)
    if as_json:
        print_json({"transcripts": tally.__dict__, "exports": {file: _as_row(each) for file, each in read.items()}})
    else:
        _show(tally, read)
    if tally.faults or any(each.faulty for each in read.values()):
        sys.exit(1)


def _host_projects() -> Path:
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "projects"


def transcript_folders(root: Path) -> list[Path]:
    """Return the folders in which Claude Code keeps the transcripts of a project: `/` and other signs become `-`."""
    names = {re.sub(r"[^A-Za-z0-9]", "-", str(root)), str(root).replace("/", "-")}
    return [folder for folder in (_host_projects() / name for name in sorted(names)) if folder.is_dir()]


def _files(path: Path) -> Iterable[Path]:
    return path.glob("*.jsonl") if path.is_dir() else (path,)


def _is_export(path: Path) -> bool:
    """Tell by its first line whether a file holds memories."""
    with path.open("rb") as file:
        head = file.read(4096)
    return head.lstrip().startswith(b'{"id":"rm_')


async def _read_export(toolbox: "Toolbox", file: Path, quarantine: bool) -> "Imported":
    from swarm_memory.tools.transfer import import_memories

    with file.open(encoding="utf-8", errors="replace") as lines:
        return await import_memories(toolbox, lines, source=file.name, quarantine=quarantine)


async def _learn_from(toolbox: "Toolbox", files: list[Path], as_json: bool) -> Tally:
    from swarm_memory.server.streaming import in_thread
    from swarm_memory.server.transcript import read_trajectories
    from swarm_memory.tools.learn import learn

    tally = Tally()
    async for file in _with_progress(files, quiet=as_json):
        tally.files += 1
        try:
            async for trajectory in in_thread(partial(read_trajectories, file, limits=toolbox.settings.learn)):
                result = await learn(toolbox, trajectory)
                tally.tasks += 1
                tally.verdicts[result.verdict.label] = tally.verdicts.get(result.verdict.label, 0) + 1
                tally.stored += len(result.stored)
                tally.known += result.status == "already_learned"
        except InputError as error:
            tally.faults[str(file)] = str(error)
    return tally


async def _with_progress(files: list[Path], *, quiet: bool) -> AsyncGenerator[Path]:
    """Yield the files with a bar on stderr, by bytes, when a person looks."""
    stream: IO[str] = sys.stderr
    if quiet or not stream.isatty():
        for file in files:
            yield file
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        total = bar.add_task("reading", total=sum(file.stat().st_size for file in files))
        for file in files:
            yield file
            bar.advance(total, file.stat().st_size)


def _as_row(read: "Imported") -> dict[str, Any]:
    return {
        "added": read.added,
        "known": read.known,
        "faulty": read.faulty,
        "faults": read.faults,
        "notices": read.notices,
    }


def _show(tally: Tally, read: "dict[str, Imported]") -> None:
    if tally.files:
        verdicts = ", ".join(f"{count} {label}" for label, count in sorted(tally.verdicts.items())) or "none"
        say(f"{tally.files} transcripts, {tally.tasks} tasks ({tally.known} known already); verdicts: {verdicts}.")
        say(f"{tally.stored} memories stored.")
    for file, each in read.items():
        say(f"{file}: {each.added} memories added, {each.known} known already, {each.faulty} faulty.")
        for fault in (*each.faults, *each.notices):
            say(f"    {fault}")
    for file, fault in tally.faults.items():
        click.echo(f"swarm-memory: {file}: {fault}", err=True)


COMMANDS = {"export": export, "import": import_}
