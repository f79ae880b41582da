"""`export` and `import`: a bank as JSON lines, and all transcripts of a project."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import InputError
from swarm_memory.server.cli.console import json_option, print_json, say
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.hosts.paths import host_folder, transcript_folders
from swarm_memory.server.jobs.transcripts import (
    OnFile,
    Tally,
    as_row,
    files_of,
    import_files,
)

if TYPE_CHECKING:
    from swarm_memory.tools.toolbox import Toolbox


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
    from swarm_memory.tools.memories.transfer import export_memories

    async def operate(toolbox: "Toolbox") -> int:
        count = 0
        with click.open_file(str(output or "-"), "w", encoding="utf-8", atomic=output is not None) as file:
            async for line in export_memories(toolbox, with_global=not own_only):
                file.write(line + "\n")
                count += 1
        return count

    count = invocation.run(operate)
    if output is not None:
        say(f"{counted(count, 'memory')} written to {output}.")


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
        raise InputError(f"no transcripts of {invocation.root} in {host_folder()}; name files or folders")
    files = files_of(given)
    with _bar(files, quiet=as_json) as moved:
        tally = invocation.run(lambda toolbox: import_files(toolbox, files, quarantine=quarantine, on_file=moved))
    if as_json:
        print_json(as_row(tally))
    else:
        _show(tally)
    if tally.faults or any(each.faulty for each in tally.exports.values()):
        sys.exit(1)


@contextmanager
def _bar(files: list[Path], *, quiet: bool) -> Generator[OnFile | None]:
    """Show a bar on stderr, by bytes, when a person looks."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    sizes = [file.stat().st_size for file in files]
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        shown = bar.add_task("reading", total=sum(sizes))

        async def moved(number: int, file: Path) -> None:
            bar.update(shown, completed=sum(sizes[:number]), description=file.name[:40])

        yield moved
        bar.update(shown, completed=sum(sizes))


def _show(tally: Tally) -> None:
    if tally.files:
        verdicts = ", ".join(f"{count} {label}" for label, count in sorted(tally.verdicts.items())) or "none"
        read = f"{counted(tally.files, 'transcript')}, {counted(tally.tasks, 'task')}"
        say(f"{read} ({tally.known} known already); verdicts: {verdicts}.")
        say(f"{counted(tally.stored, 'memory')} stored, {counted(tally.calls, 'tool call')} logged.")
    for file, each in tally.exports.items():
        say(f"{file}: {counted(each.added, 'memory')} added, {each.known} known already, {each.faulty} faulty.")
        if each.added:
            say(f"    To take it back: swarm-memory memories forget --run {each.run_id}")
        for fault in (*each.faults, *each.notices):
            say(f"    {fault}")
    for file, fault in tally.faults.items():
        click.echo(f"swarm-memory: {file}: {fault}", err=True)


COMMANDS = {"export": export, "import": import_}
