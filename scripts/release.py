"""The files by which the project is found and installed, made from pyproject.toml.

python scripts/release.py                     writes them: plugin, marketplace, server.json, slash commands
python scripts/release.py --repository O/R    puts the repository's name everywhere, and writes them
python scripts/release.py --check             exits with 1 where one is outdated, or another repository is named
python scripts/release.py --publish v0.1.0    the same, and where repository, tag or changelog are not ready to publish
python scripts/release.py --bundle FOLDER     puts the files of the bundle for Claude Desktop into a new folder
"""

import argparse
import inspect
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from swarm_memory.server.hosts.claude_code.host import HOST
from swarm_memory.server.mcp.app import memories, remember

ROOT = Path(__file__).resolve().parent.parent
UNSET = "owner--not-set/swarm-memory"
"""No GitHub account can have this name."""

UV = ("run", "--project", "${ROOT}", "--frozen", "--no-default-groups", "--no-editable", "swarm-memory", "serve")
"""How uv starts the server from a copy of the repository, with the dependencies of its lock file."""

SERVER_SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
COMMANDS = ".claude-plugin/commands"
BUNDLED = ("pyproject.toml", "hatch_build.py", "uv.lock", "README.md", "LICENSE", "server", "tools", "schema")
FOLDER_TITLE = "Folder of the memory"
NAMING = ("README.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md", "pyproject.toml", "Dockerfile",
          "docs/*.md", ".github/**/*", ".claude-plugin/**/*", "server.json")  # fmt: skip
"""Files that may name the repository."""

_REPOSITORY = re.compile(r"(?<=github\.com/)[\w.-]+/swarm-memory\b")
_REGISTERED = re.compile(r"(?<=io\.github\.)[\w.-]+/swarm-memory\b")


class Project(NamedTuple):
    """What pyproject.toml says."""

    version: str
    description: str
    keywords: list[str]
    repository: str
    """OWNER/REPOSITORY on GitHub."""

    @property
    def url(self) -> str:
        return f"https://github.com/{self.repository}"

    @property
    def registered(self) -> str:
        """The name in the MCP registry."""
        return f"io.github.{self.repository}"


def project() -> Project:
    """Read pyproject.toml."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    repository = str(table["urls"]["Repository"]).removeprefix("https://github.com/")
    return Project(table["version"], table["description"], table["keywords"], repository)


def plugin(ours: Project) -> dict[str, Any]:
    """Return the Claude Code plugin: the whole repository, started by uv."""
    root, data = "${CLAUDE_PLUGIN_ROOT}", "${CLAUDE_PLUGIN_DATA}"
    args = [word.replace("${ROOT}", root) for word in UV]
    server = {"command": "uv", "args": args, "env": {"UV_PROJECT_ENVIRONMENT": f"{data}/venv"}}
    return {
        "name": "swarm-memory",
        "version": ours.version,
        "description": ours.description,
        "author": {"name": "swarm-memory", "url": ours.url},
        "homepage": ours.url,
        "repository": ours.url,
        "license": "Apache-2.0",
        "keywords": ours.keywords,
        "mcpServers": {"swarm-memory": server},
        "commands": f"./{COMMANDS}/",
        "hooks": HOST.hook_entries(("sh", f"{root}/scripts/plugin_hook.sh")),
    }


def marketplace(ours: Project) -> dict[str, Any]:
    """Return the Claude Code marketplace that holds the plugin."""
    entry = {"name": "swarm-memory", "source": "./", "description": ours.description, "category": "memory"}
    owner = {"name": "swarm-memory", "url": ours.url}
    return {"name": "swarm-memory", "description": ours.description, "owner": owner, "plugins": [entry]}


def server(ours: Project) -> dict[str, Any]:
    """Return the entry for the MCP registry."""
    bank = {
        "name": "SWARM_MEMORY_DB",
        "description": "The file of the memory; else .swarm/memory.db of the project that the client works in.",
        "format": "filepath",
        "isRequired": False,
    }
    package = {
        "registryType": "pypi",
        "identifier": "swarm-memory",
        "version": ours.version,
        "runtimeHint": "uvx",
        "transport": {"type": "stdio"},
        "packageArguments": [{"type": "positional", "value": "serve"}],
        "environmentVariables": [bank],
    }
    return {
        "$schema": SERVER_SCHEMA,
        "name": ours.registered,
        "title": "swarm-memory",
        "description": ours.description,
        "repository": {"url": ours.url, "source": "github"},
        "version": ours.version,
        "packages": [package],
    }


def manifest(ours: Project) -> dict[str, Any]:
    """Return the manifest of the bundle for Claude Desktop, which has no project: its bank is where the user says."""
    folder = {
        "type": "directory",
        "title": FOLDER_TITLE,
        "description": "Where the file memory.db lies. Nothing else is written.",
        "default": "${HOME}/.swarm-memory",
        "required": True,
    }
    return {
        "manifest_version": "0.4",
        "name": "swarm-memory",
        "display_name": "swarm-memory",
        "version": ours.version,
        "description": ours.description,
        "author": {"name": "swarm-memory", "url": ours.url},
        "repository": {"type": "git", "url": ours.url},
        "homepage": ours.url,
        "support": f"{ours.url}/issues",
        "license": "Apache-2.0",
        "keywords": ours.keywords,
        "server": {
            "type": "uv",
            "entry_point": "server/console_script.py",
            "mcp_config": {
                "command": "uv",
                "args": [word.replace("${ROOT}", "${__dirname}") for word in UV],
                "env": {
                    "SWARM_MEMORY_DB": "${user_config.folder}/memory.db",
                    "SWARM_MEMORY_STORAGE__PROJECT": "claude-desktop",
                },
            },
        },
        "tools_generated": True,
        "prompts_generated": True,
        "compatibility": {"platforms": ["darwin", "linux", "win32"], "runtimes": {"python": ">=3.11"}},
        "user_config": {"folder": folder},
    }


def slash_command(prompt: Callable[[str], str], hint: str) -> str:
    """Return a slash command of the plugin that asks the same as a prompt of the server."""
    given, alone = prompt("$ARGUMENTS"), prompt("")
    head = f"---\ndescription: {inspect.getdoc(prompt)}\nargument-hint: {hint}\n---\n"
    return f'{head}I said: "$ARGUMENTS". If that is not empty:\n\n{given}\n\nIf it is empty:\n\n{alone}\n'


def written(ours: Project) -> dict[Path, str]:
    """Return the text of each file that is made from pyproject.toml and from the server's prompts."""
    commands = {"remember": slash_command(remember, "[what to keep]"), "memories": slash_command(memories, "[topic]")}
    made = {".claude-plugin/plugin.json": plugin, ".claude-plugin/marketplace.json": marketplace, "server.json": server}
    return {ROOT / name: json.dumps(make(ours), indent=2) + "\n" for name, make in made.items()} | {
        ROOT / COMMANDS / f"{name}.md": text for name, text in commands.items()
    }


def naming_files() -> Iterator[Path]:
    """Yield the files that may name the repository."""
    yield from (path for pattern in NAMING for path in sorted(ROOT.glob(pattern)) if path.is_file())


def faults(ours: Project) -> list[str]:
    """Return what does not match pyproject.toml."""
    found = [
        f"{path.relative_to(ROOT)} is not what pyproject.toml makes of it: python scripts/release.py"
        for path, text in written(ours).items()
        if not path.is_file() or path.read_text("utf-8") != text
    ]
    for path in naming_files():
        text = path.read_text("utf-8")
        others = {*_REPOSITORY.findall(text), *_REGISTERED.findall(text)} - {ours.repository}
        found += [f"{path.relative_to(ROOT)} names another repository: {other}" for other in sorted(others)]
    if f"<!-- mcp-name: {ours.registered} -->" not in (ROOT / "README.md").read_text("utf-8"):
        found.append(f"README.md does not say mcp-name: {ours.registered}")
    return found


def hindrances(ours: Project, tag: str) -> list[str]:
    """Return what prevents publishing under a tag."""
    found = faults(ours)
    if ours.repository == UNSET:
        found.append("the repository is not said: python scripts/release.py --repository OWNER/swarm-memory")
    if tag != f"v{ours.version}":
        found.append(f"the tag {tag} is not that of version {ours.version} in pyproject.toml")
    if f"\n## {ours.version}\n" not in (ROOT / "CHANGELOG.md").read_text("utf-8"):
        found.append(f"CHANGELOG.md has no heading '## {ours.version}' alone: say no longer that it is unreleased")
    return found


def name_repository(repository: str) -> None:
    """Replace the name of the repository in every file that may have it."""
    if not re.fullmatch(r"[A-Za-z0-9](?:-?[A-Za-z0-9])*/swarm-memory", repository):
        sys.exit(f"{repository!r} is no OWNER/swarm-memory of GitHub")
    for path in naming_files():
        text = path.read_text("utf-8")
        path.write_text(_REGISTERED.sub(repository, _REPOSITORY.sub(repository, text)), "utf-8")


def lay_bundle(folder: Path, ours: Project) -> None:
    """Put the content of the bundle into a new folder: those of its files that git tracks, and the manifest."""
    listed = subprocess.run(["git", "ls-files", "-z", *BUNDLED], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    (folder / "manifest.json").write_text(json.dumps(manifest(ours), indent=2) + "\n", "utf-8")


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", metavar="OWNER/REPOSITORY")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--publish", metavar="TAG")
    parser.add_argument("--bundle", type=Path, metavar="FOLDER")
    given = parser.parse_args()
    if given.repository:
        name_repository(given.repository)
    ours = project()
    if given.bundle:
        lay_bundle(given.bundle, ours)
    elif given.check or given.publish:
        if found := hindrances(ours, given.publish) if given.publish else faults(ours):
            sys.exit("\n".join(found))
    else:
        for path, text in written(ours).items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
