"""What each coding agent has of its own, and which there are: `host("codex")`. One is loaded when it is named."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias, cast

from swarm_memory.schema.errors import InputError

if TYPE_CHECKING:
    from swarm_memory.schema.trajectory import Trajectory
    from swarm_memory.server.hosts.records import Record, Records
    from swarm_memory.server.hosts.settings import InstalledHost

ROOMS: Mapping[str, str] = {
    "claude": "claude_code", "codex": "codex", "copilot": "copilot_cli", "gemini": "gemini_cli", "cursor": "cursor",
    "opencode": "opencode",
}  # fmt: skip
"""By the name of a host: its folder here, with the modules `host` and `transcripts`."""

Said: TypeAlias = dict[str, Any]
"""What a hook says, or is answered, as JSON."""

InstallScope = Literal["local", "project", "user"]
SCOPES: tuple[InstallScope, ...] = ("local", "project", "user")


class Host:
    """What a coding agent says, is told and keeps; `settings.InstalledHost` adds how we are put into its files.

    Our own words for what happens are those of Claude Code: the events SessionStart, UserPromptSubmit, PreToolUse,
    PostToolUseFailure, Stop and SessionEnd; in them `session_id`, `transcript_path`, `cwd`, `prompt`, `tool_name`,
    `tool_input`, `error`, `stop_hook_active`; and the answer `hookSpecificOutput` with `additionalContext`.
    `answered` translates that context alone.
    """

    name: ClassVar[str]
    """As `swarm-memory hook NAME EVENT` and `install --agent NAME` call it."""
    title: ClassVar[str]
    own_folder: ClassVar[tuple[str, str, str]]
    """Of the user's own files: a variable that may say where it is, else where below their home folder; its name."""
    sessions: ClassVar[tuple[str, ...]] = ()
    """Below `home`: the folders of its transcripts."""
    context_at: ClassVar[Mapping[str, str]] = {}
    """By our event at which its hook takes context: under which key; an empty one is where Claude Code takes it."""
    events: ClassVar[Mapping[str, str]] = {}
    """By our event: its own."""
    names_project: ClassVar[bool] = False
    """Whether CLAUDE_PROJECT_DIR names the project to its hooks; else the `cwd` of their events does."""
    reads_skills: ClassVar[bool] = False
    """Whether it reads the skills that memories are promoted to by itself; else they are shown to it."""
    sees_calls: ClassVar[bool] = False
    """Whether its agent sees what a hook says before a call of a tool."""
    asks: ClassVar[bool] = False
    """Whether its Stop can have the agent say what a task taught: `server/hooks/events.py` reads its transcript."""

    defers_tools: ClassVar[bool] = False
    """Whether a tool costs its agent nothing before it is looked for; else `install` has our server offer the core."""

    def home(self) -> Path:
        """Return the folder of the user's own files."""
        return folder_named(*self.own_folder)

    def folders(self) -> tuple[str, ...]:
        """Return the folders below which it keeps transcripts; they may not exist."""
        return tuple(str(self.home() / each) for each in self.sessions)

    def heard(self, event: str, said: Said) -> Said:
        """Take our event and what its hook said; return that in our words, nothing where there is nothing to do."""
        return said

    def answered(self, event: str, answer: Said) -> Said:
        """Take our event and our answer; return what its hook may answer, nothing where it takes no such answer."""
        said: Said = answer.get("hookSpecificOutput") or {}
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
    """Counts in `skipped` what could not be read; a reader adds what it does not know."""
    path: Path | None = None
    """None: a stream."""
    session_id: str | None = None
    """Taken before the one in the file."""

    @property
    def stem(self) -> str | None:
        """The file's name without its endings."""
        return None if self.path is None else self.path.name.partition(".")[0]


class Transcripts(NamedTuple):
    """`TRANSCRIPTS` of the module `transcripts` in a host's folder."""

    is_one: Callable[["Record"], bool]
    """Tells whether a record is a line of such a transcript; the first record known to any host decides for a file."""
    read: Callable[[Iterator["Record"], Origin], Iterator["Trajectory"]]
    """Yields one trajectory for each task, in order."""
    find: Callable[[Path | None], Iterable[Path]] = lambda root: ()
    """Returns the files of the sessions held in a project; None: of all."""
    subagents: Callable[[Path], list[Path]] = lambda transcript: []
    """Returns the files of a session's subagents that lie beside its transcript and are read after it."""
    stores: str = ""
    """The names of its databases of sessions, as a pattern."""
    read_store: Callable[[Path, str | None], Iterator["Trajectory"]] | None = None
    """Yields as `read`, of one session with its subagents where an id is given."""


def host(name: str) -> "InstalledHost":
    """Return a host by its name. Raises `InputError`."""
    if name not in ROOMS:
        raise InputError(f"there is no agent {name!r}: {', '.join(ROOMS)}")
    return cast("InstalledHost", _part(name, "host").HOST)


def hosts() -> "Iterator[InstalledHost]":
    """Yield every host."""
    return map(host, ROOMS)


def all_folders(root: str | os.PathLike[str] | None = None) -> list[str | os.PathLike[str]]:
    """Return where a caller may name a transcript: the folders of every host, and a project's."""
    found: list[str | os.PathLike[str]] = [folder for each in hosts() for folder in each.folders()]
    return found if root is None else [*found, root]


def folder_named(variable: str, below_home: str, name: str) -> Path:
    """Return the folder of a name in one that a variable names, or else in one below the home folder."""
    return Path(os.environ.get(variable) or Path.home() / below_home, name)


def _part(name: str, part: str) -> Any:
    return import_module(f"swarm_memory.server.hosts.{ROOMS[name]}.{part}")
