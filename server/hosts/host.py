"""The supported coding agents and what is specific to each. `host("codex")` returns one, loaded on demand."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, cast

from swarm_memory.schema.errors import InputError

if TYPE_CHECKING:
    from swarm_memory.schema.trajectory import Trajectory
    from swarm_memory.server.hosts.records import JsonDict, Records
    from swarm_memory.server.hosts.settings import InstalledHost

ROOMS: Mapping[str, str] = {
    "claude": "claude_code", "codex": "codex", "copilot": "copilot_cli", "gemini": "gemini_cli", "cursor": "cursor",
    "opencode": "opencode",
}  # fmt: skip
"""Each host's folder here, by the host's name; it has the modules `host` and `transcripts`."""

HookPayload: TypeAlias = dict[str, Any]
"""A hook's event, or our answer to it, as a JSON object."""

InstallScope = Literal["local", "project", "user"]
SCOPES: tuple[InstallScope, ...] = ("local", "project", "user")


class Host:
    """A coding agent: its hooks' events and answers, and its files. `settings.InstalledHost` adds our installation.

    Our own vocabulary is that of Claude Code: the events SessionStart, UserPromptSubmit, PreToolUse,
    PostToolUseFailure, Stop and SessionEnd; their fields `session_id`, `transcript_path`, `cwd`, `prompt`, `tool_name`,
    `tool_input`, `error`, `stop_hook_active`; and the answer `hookSpecificOutput` with `additionalContext`.
    `format_answer` translates only that context.
    """

    name: ClassVar[str]
    """The NAME in `swarm-memory hook NAME EVENT` and `install --agent NAME`."""
    title: ClassVar[str]
    own_folder: ClassVar[tuple[str, str, str]]
    """Where the user's own files are: a variable for the base folder, its default below the home folder, a name."""
    sessions: ClassVar[tuple[str, ...]] = ()
    """The folders of its transcripts, relative to `home`."""
    context_at: ClassVar[Mapping[str, str]] = {}
    """Our events whose hooks accept context, with the answer's key for it; an empty key means Claude Code's format."""
    events: ClassVar[Mapping[str, str]] = {}
    """Our events, with the agent's own name for each."""
    names_project: ClassVar[bool] = False
    """Whether its hooks get the project in CLAUDE_PROJECT_DIR; otherwise it is the `cwd` of their events."""
    reads_skills: ClassVar[bool] = False
    """Whether it reads by itself the skills that memories are promoted to; otherwise those memories are injected."""
    sees_calls: ClassVar[bool] = False
    """Whether its agent sees what a hook answers before a tool call."""
    asks: ClassVar[bool] = False
    """Whether its Stop hook can ask the agent what a task taught: `server/hooks/events.py` reads its transcript."""

    defers_tools: ClassVar[bool] = False
    """Whether a tool costs the agent nothing until searched for; otherwise `install` offers only the core tools."""

    def home(self) -> Path:
        """Return the folder of the user's own files."""
        return folder_below_env(*self.own_folder)

    def folders(self) -> tuple[str, ...]:
        """Return the folders that hold its transcripts; they may not exist."""
        return tuple(str(self.home() / each) for each in self.sessions)

    def parse_event(self, event: str, said: HookPayload) -> HookPayload:
        """Translate what its hook sent for our `event` into our vocabulary; `{}` means that there is nothing to do."""
        return said

    def format_answer(self, event: str, answer: HookPayload) -> HookPayload:
        """Translate our answer to our `event` into its hook's format; `{}` where the hook accepts no such answer."""
        said: HookPayload = answer.get("hookSpecificOutput") or {}
        context = said.get("additionalContext")
        if not context or event not in self.context_at:
            return {}
        if key := self.context_at[event]:
            return {key: context}
        return {"hookSpecificOutput": {"hookEventName": self.events[event], "additionalContext": context}}

    @property
    def transcripts(self) -> "Transcripts":
        """How its transcripts are found and read."""
        return cast("Transcripts", _part(self.name, "transcripts").TRANSCRIPTS)


class Origin(NamedTuple):
    """Where records come from."""

    records: "Records"
    """Its `skipped` counts what could not be read; a reader adds the records that it does not recognize."""
    path: Path | None = None
    """None for a stream."""
    session_id: str | None = None
    """Overrides the one in the file."""

    @property
    def stem(self) -> str | None:
        """The file's name without its suffixes."""
        return None if self.path is None else self.path.name.partition(".")[0]


class Transcripts(NamedTuple):
    """How a transcript format is recognized, read and found: `TRANSCRIPTS` in the module `transcripts` of each host."""

    is_one: Callable[["JsonDict"], bool]
    """Tells whether a record is in this format; the first record that any format recognizes decides for the file."""
    read: Callable[[Iterator["JsonDict"], Origin], Iterator["Trajectory"]]
    """Yields one trajectory for each task, in order."""
    find: Callable[[Path | None], Iterable[Path]] = lambda root: ()
    """Returns the session files of a project; None means of all projects."""
    subagents: Callable[[Path], list[Path]] = lambda transcript: []
    """Returns the files of a session's subagents, which are next to its transcript and read after it."""
    stores: str = ""
    """A glob pattern for the names of its session databases."""
    read_store: Callable[[Path, str | None], Iterator["Trajectory"]] | None = None
    """Yields like `read`; given a session id, only that session and its subagents."""


def host(name: str) -> "InstalledHost":
    """Return a host by its name. Raises `InputError`."""
    if name not in ROOMS:
        raise InputError(f"there is no agent {name!r}; the agents are {', '.join(ROOMS)}")
    return cast("InstalledHost", _part(name, "host").HOST)


def hosts() -> "Iterator[InstalledHost]":
    """Yield every host."""
    return map(host, ROOMS)


def transcript_folders(root: str | os.PathLike[str] | None = None) -> list[str | os.PathLike[str]]:
    """Return the folders in which a caller may name a transcript: those of every host, and a project's `root`."""
    found: list[str | os.PathLike[str]] = [folder for each in hosts() for folder in each.folders()]
    return found if root is None else [*found, root]


def folder_below_env(variable: str, below_home: str, name: str) -> Path:
    """Return the folder `name` in the folder that `variable` names, or else in `below_home` under the home folder."""
    return Path(os.environ.get(variable) or Path.home() / below_home, name)


def _part(name: str, part: str) -> Any:
    return import_module(f"swarm_memory.server.hosts.{ROOMS[name]}.{part}")
