"""README, CONTRIBUTING and docs name every tool, command and dependency, and only pages that exist."""

import json
import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.cli.main import COMMANDS, cli
from swarm_memory.server.mcp.app import build_server
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.tools.toolbox import Toolbox

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "docs").glob("*.md"))]

OF_TODAY = [page for page in PAGES if page.name != "CHANGELOG.md"]
"""Pages that describe the present; the changelog may name a file that has since been removed."""


def read(name: str) -> str:
    return (REPOSITORY / name).read_text("utf-8")


def first_cells(text: str) -> list[str]:
    """Return the cells in the first columns of all tables of a page."""
    return re.findall(r"^\| (.+?) \|", text, re.MULTILINE)


async def no_bank() -> Toolbox:
    raise ConfigError("nothing here opens a bank")


async def test_the_manual_has_a_line_for_every_listed_tool_and_for_no_other() -> None:
    listed = {tool.name for tool in await build_server(ServedBank(no_bank)).list_tools()}
    page = read("docs/MANUAL.md")
    table = page[page.index("## The tools of the server") : page.index("## The commands")]
    assert {cell.strip("`") for cell in first_cells(table) if cell.startswith("`")} == listed


def test_the_manual_names_every_command_and_no_other() -> None:
    page = read("docs/MANUAL.md")
    table = page[page.index("## The commands") : page.index("## Settings")]
    named = [name for cell in first_cells(table) for name in re.findall(r"`([a-z-]+)`", cell)]
    assert sorted(named) == sorted(COMMANDS)


def test_contributing_says_why_each_dependency_is_there() -> None:
    project = tomllib.loads(read("pyproject.toml"))
    page = read("CONTRIBUTING.md")
    rows = " ".join(first_cells(page[page.index("## Dependencies") :]))
    names = [re.split(r"[\s=<>;\[]", line, maxsplit=1)[0] for line in project["project"]["dependencies"]]
    assert [name for name in names if name not in rows] == []
    assert [extra for extra in project["project"]["optional-dependencies"] if extra not in rows] == []
    development = page[page.index("For development") :]
    for line in project["dependency-groups"]["dev"]:
        name = re.split(r"[\s=<>;\[]", line, maxsplit=1)[0]
        assert name in development or name == "swarm-memory"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings_that_exist(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text("utf-8"))
    leads = [(page.parent / file if file else page, heading) for file, heading in links]
    assert [str(file) for file, _ in leads if not file.exists()] == []
    assert [lead for lead in leads if lead[1] and lead[1] not in anchors_of(lead[0])] == []


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", OF_TODAY, ids=lambda page: page.name)
def test_files_and_folders_that_pages_name_exist(page: Path) -> None:
    assert [path for path in named_paths(page.read_text("utf-8")) if not any(REPOSITORY.glob(path))] == []


def test_a_path_that_does_not_exist_is_noticed() -> None:
    named = named_paths(
        "See `tools/gone.py`, `server/cli/`, `schema/sqlite/queries*.sql` and benchmarks/gone.py; not `NNNN_what.sql`."
    )
    assert named == ["tools/gone.py", "server/cli", "schema/sqlite/queries*.sql", "benchmarks/gone.py"]
    assert [path for path in named if not any(REPOSITORY.glob(path))] == ["tools/gone.py", "benchmarks/gone.py"]


MCP_METHODS = {"tools/list", "tools/call"}


def named_paths(text: str) -> list[str]:
    """Return the paths in the repository that a text names; a star matches any characters."""
    found = re.findall(r"(?<![\w/.{-])((?:benchmarks|docs|schema|scripts|server|src|tests|tools)/[\w/.*-]*\w)", text)
    return [path.replace("NNNN_what", "[0-9]*") for path in found if path not in MCP_METHODS]


@pytest.mark.parametrize("page", OF_TODAY, ids=lambda page: page.name)
def test_commands_that_pages_show_exist_with_their_options(page: Path) -> None:
    assert [line for line in shown_commands(page.read_text("utf-8")) if not is_known(line)] == []


def test_a_command_or_an_option_that_does_not_exist_is_noticed() -> None:
    lines = shown_commands("Say `swarm-memory recall x`.\n\n    swarm-memory learn --twice run.jsonl  # why\n")
    assert lines == ["swarm-memory recall x", "swarm-memory learn --twice run.jsonl"]
    assert [line for line in lines if is_known(line)] == []


def shown_commands(text: str) -> list[str]:
    """Return text in backticks or code blocks that begins with the program's name."""
    quoted = re.findall(r"(?<!`)`(swarm-memory [^`]+)`(?!`)", text)
    blocks = re.findall(r"^ *(swarm-memory .+?)(?: +#.*| \\\\)?$", text, re.MULTILINE)
    return [" ".join(line.split("|")[0].split()) for line in [*quoted, *blocks]]


def is_known(line: str) -> bool:
    """Whether the program, a command and a subcommand accept the options of a line."""
    command: click.Command = cli
    context = click.Context(cli)
    for word in shlex.split(line.replace("…", ""))[1:]:
        name = word.partition("=")[0]
        if isinstance(command, click.Group) and not word.startswith("-"):
            found = command.get_command(context, word)
            if found is None:
                return False
            command = found
        elif word.startswith("-") and word != "-":
            options = {each for option in command.params for each in (*option.opts, *option.secondary_opts)}
            if name not in {*options, "--help"}:
                return False
    return True


def test_the_container_starts_the_server_with_options_that_exist() -> None:
    lines = re.findall(r"^(?:ENTRYPOINT|CMD) (.+)$", read("Dockerfile"), re.MULTILINE)
    assert is_known(shlex.join(word for line in lines for word in json.loads(line)))
