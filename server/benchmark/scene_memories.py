"""The memories that the scenes are done with: none, all in one file, transcripts by BM25, ours, and outside servers."""

import json
import os
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import anyio
from pydantic import JsonValue

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.benchmark.outside import Answer, OutsideServer, OutsideSystem, ToolUse, Values, at, listed
from swarm_memory.server.child_process import run
from swarm_memory.server.hosts.entries import hook_command
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.tools.benchmark.suites.scene_agent import Call, Work
from swarm_memory.tools.text.tokens import query_tokens, tokenize

if TYPE_CHECKING:
    from mcp.client import Client

_LEARNED_S = 60.0
_POLL_S = 0.05
_HOOK_BYTES = 1_000_000
_TRANSCRIPTS = 3
"""Found ones that are told."""


class SceneMemory(Protocol):
    """What stands between the sessions of one project."""

    async def begin(self, work: Work) -> Sequence[str]:
        """Return what is told at the begin of a session, and with the user's task."""
        ...

    async def before(self, work: Work, command: str) -> Sequence[str]:
        """Return what is told before a command runs."""
        ...

    async def failed(self, work: Work) -> Sequence[str]:
        """Return what is told after a call that failed, the last one."""
        ...

    async def end(self, work: Work) -> None:
        """Take in a session that is over."""
        ...

    async def schema(self) -> str:
        """Return what every session is told of its tools; empty where it has none."""
        ...

    async def remarks(self) -> Sequence[str]:
        """Return what did not go well, each in a sentence."""
        ...


class Nothing:
    """Remembers nothing."""

    async def begin(self, work: Work) -> Sequence[str]:
        del work
        return ()

    async def before(self, work: Work, command: str) -> Sequence[str]:
        del work, command
        return ()

    async def failed(self, work: Work) -> Sequence[str]:
        del work
        return ()

    async def end(self, work: Work) -> None:
        """Forget it."""

    async def schema(self) -> str:
        return ""

    async def remarks(self) -> Sequence[str]:
        return ()


@dataclass
class OneFile(Nothing):
    """A CLAUDE.md: every note that the agent writes is added, and all of it is told in every session."""

    lines: list[str] = field(default_factory=list[str])

    async def begin(self, work: Work) -> Sequence[str]:
        return ("\n".join(self.lines),) if self.lines else ()

    async def end(self, work: Work) -> None:
        self.lines.append(f"- {work.note()}")


@dataclass
class Transcripts(Nothing):
    """The transcripts of all sessions as they are, found by BM25 with the task, and with an error."""

    kept: list[str] = field(default_factory=list[str])

    async def begin(self, work: Work) -> Sequence[str]:
        return self._found(work.session.task)

    async def failed(self, work: Work) -> Sequence[str]:
        return [each for each in self._found(work.calls[-1].output) if each not in work.told]

    async def end(self, work: Work) -> None:
        self.kept.append(work.transcript())

    def _found(self, query: str) -> list[str]:
        if not self.kept:
            return []
        asked, known = query_tokens(query), [tokenize(each) or ("",) for each in self.kept]
        index: Any = import_module("rank_bm25").BM25Okapi(known)
        scores: list[float] = index.get_scores(asked).tolist()
        best = sorted(range(len(scores)), key=lambda at: -scores[at])[:_TRANSCRIPTS]
        return [self.kept[at] for at in best if {*asked} & {*known[at]}]


@dataclass
class _Served:
    """A process of a server for all sessions of a project."""

    server: OutsideServer
    home: Path
    refused: list[str] = field(default_factory=list[str])
    """What the server said no to."""
    _client: "Client | None" = None

    @property
    def config(self) -> OutsideSystem:
        return self.server.config

    async def schema(self) -> str:
        """Return the tools as a model is shown them. Raises `ConfigError`, as every call of the server does."""
        tools = (await (await self._opened()).list_tools()).tools
        told = [tool.model_dump(include={"name", "description", "input_schema"}, exclude_none=True) for tool in tools]
        return json.dumps(told)

    async def remarks(self) -> Sequence[str]:
        return self.refused

    async def _asked(self, use: ToolUse, values: Values) -> Answer:
        answer = await self.server.ask(await self._opened(), use, values)
        if answer.is_error:
            self.refused.append(f"{use.tool} refused: {answer.seen[:200]}")
        return answer

    async def _opened(self) -> "Client":
        if self._client is None:
            self._client = await self.server.start(self.home)
        return self._client


@dataclass
class Outside(_Served):
    """A server that a file describes; the agent writes its note after each session."""

    stored: int = 0

    async def begin(self, work: Work) -> Sequence[str]:
        values = {"query": work.session.task, "script": work.session.script}
        told = [] if self.config.start is None else [(await self._asked(self.config.start, values)).seen]
        if "prompt" in self.config.searches_at:
            told += await self._search(work, work.session.task)
        return told

    async def before(self, work: Work, command: str) -> Sequence[str]:
        del work, command
        return ()

    async def failed(self, work: Work) -> Sequence[str]:
        if "failure" not in self.config.searches_at:
            return ()
        return [each for each in await self._search(work, work.calls[-1].output) if each not in work.told]

    async def end(self, work: Work) -> None:
        config, cure = self.config, work.cure()
        values: dict[str, str | int] = {
            "content": work.note(), "id": work.session.name, "group": "project", "script": work.session.script,
            "time": datetime.now(UTC).isoformat(),
        }  # fmt: skip
        use = config.store
        if cure is not None and config.store_cure is not None:
            use, values = config.store_cure, values | cure
        self.stored += not (await self._asked(use, values)).is_error
        if not self.stored and len(self.refused) >= 3:
            raise ConfigError(f"{config.name}: it stores nothing: {self.refused[0]}")

    async def _search(self, work: Work, query: str) -> list[str]:
        config = self.config
        values: Values = {"query": query, "k": config.k, "group": "project", "script": work.session.script}
        found = await self._asked(config.search, values)
        if config.read is None:
            return [found.seen]
        hits = listed(at(found.content, config.search.results))[: config.k]
        ids = [str(at(hit, config.search.id)) for hit in hits]
        return [found.seen, *[(await self._asked(config.read, {"id": each})).seen for each in ids]]


def ours(project: Path, home: Path) -> OutsideSystem:
    """Return how this product is started in a project, with its defaults: no settings of the user's count."""
    here = {"HOME": str(home), "XDG_STATE_HOME": str(home / ".state"), "CLAUDE_PROJECT_DIR": str(project)}
    return OutsideSystem(
        name="swarm-memory",
        command=(sys.executable, "-I", "-m", "swarm_memory.server.cli", "serve"),
        env={"PATH": os.environ.get("PATH", os.defpath), **here},
        store=ToolUse(tool="remember", arguments={"text": "{content}"}),
        search=ToolUse(tool="memory_status", arguments={}),
    )


@dataclass
class Ours(_Served):
    """This product as `install` sets it up: the server over MCP, the hooks as the commands that Claude Code starts.

    The agent calls `remember` when the user wants something kept, and when a page talks it into that; all else the
    hooks do.
    """

    project: Path = Path()
    remembers: bool = True
    """Whether the agent calls `remember`; else the hooks are all there is."""
    notes: bool = False
    """Whether it also says by `distill_memories` what an error taught it, as it does with memories of others."""
    _ended: int = 0
    """Tasks: what the user says after one may be another."""
    _session: str = ""
    _begun: datetime = field(default_factory=partial(datetime.now, UTC))

    async def begin(self, work: Work) -> Sequence[str]:
        await self._opened()
        self._session, self._begun = str(uuid.uuid4()), datetime.now(UTC)
        start = await self._hook("session-start", "SessionStart", source="startup")
        return [*start, *await self._hook("prompt", "UserPromptSubmit", prompt=work.session.task)]

    async def before(self, work: Work, command: str) -> Sequence[str]:
        del work
        return await self._hook("before-tool", "PreToolUse", tool_name="Bash", tool_input={"command": command})

    async def failed(self, work: Work) -> Sequence[str]:
        call = work.calls[-1]
        return await self._hook(
            "tool-failure", "PostToolUseFailure", tool_name="Bash", tool_input={"command": call.command},
            tool_use_id=f"c{len(work.calls)}", error=f"Exit code {call.code}\n{call.output}",
        )  # fmt: skip

    async def end(self, work: Work) -> None:
        if work.session.wanted:
            await self._hook("prompt", "UserPromptSubmit", prompt=work.session.wanted)
        self._transcript.parent.mkdir(parents=True, exist_ok=True)
        lines = (json.dumps(each) for each in self._lines(work))
        self._transcript.write_text("".join(f"{each}\n" for each in lines), encoding="utf-8")
        named = {"transcript_path": str(self._transcript)}
        kept = work.session.wanted or work.session.page
        if kept and self.remembers:
            await self._asked(self.config.store, {"content": kept})
        if self.notes and work.failures:
            title = f"What `{work.session.goals[0]}` fails with"
            items: list[JsonValue] = [{"title": title, "content": f"1. {work.note()}", "tags": ["error"]}]
            met = "Failure" if work.calls[-1].code else "Success"
            given: dict[str, JsonValue] = {"verdict": met, "items": items, **named}
            await self._asked(ToolUse(tool="distill_memories", arguments=given), {})
        await self._hook("stop", "Stop", stop_hook_active=False)
        await self._hook("session-end", "SessionEnd", reason="other")
        self._ended += sum(1 for _ in read_trajectories(self._transcript))
        await self._learned()

    async def remarks(self) -> Sequence[str]:
        """Return what was refused, and what `memory_status` has to notice: hooks that missed something."""
        return [*self.refused, *listed(at((await self._asked(self.config.search, {})).content, "notices"))]

    async def _learned(self) -> None:
        """Wait until every session is learned from. Raises `ConfigError` where that takes too long."""
        ends = time.monotonic() + _LEARNED_S
        while time.monotonic() < ends:
            if at((await self._asked(self.config.search, {})).content, "trajectories") >= self._ended:
                return
            await anyio.sleep(_POLL_S)
        raise ConfigError(f"swarm-memory: a session was not learned from within {_LEARNED_S:g} s")

    async def _hook(self, verb: str, event: str, **said: Any) -> list[str]:
        """Run the command of a hook; return what it adds to the context."""
        given = {"session_id": self._session, "cwd": str(self.project), "hook_event_name": event}
        given |= {"transcript_path": str(self._transcript)} | said
        ran = await run(
            [*hook_command(), "claude", verb],
            stdin=json.dumps(given).encode(), cwd=self.project, environment=self.config.env,
            max_output_bytes=_HOOK_BYTES,
        )  # fmt: skip
        told: Any = json.loads(ran.output) if ran.output.strip() else {}
        context = at(told, "hookSpecificOutput.additionalContext")
        return [context] if isinstance(context, str) and context else []

    @property
    def _transcript(self) -> Path:
        folder = str(self.project).replace("/", "-")
        return Path(self.config.env["HOME"], ".claude", "projects", folder, f"{self._session}.jsonl")

    def _lines(self, work: Work) -> Iterator[dict[str, Any]]:
        """Yield the lines of the session as Claude Code writes them."""
        number = 0

        def line(role: str, content: object, **more: object) -> dict[str, Any]:
            nonlocal number
            number += 1
            moment = (self._begun + timedelta(milliseconds=number)).isoformat(timespec="milliseconds")
            message = {"id": f"m{number}", "role": role, "content": content}
            return {
                "type": role, "uuid": f"u{number}", "sessionId": self._session, "isSidechain": False,
                "cwd": str(self.project), "timestamp": moment.replace("+00:00", "Z"), "message": message, **more,
            }  # fmt: skip

        def called(call: Call) -> Iterator[dict[str, Any]]:
            used = f"c{number}"
            yield line(
                "assistant", [{"type": "tool_use", "id": used, "name": "Bash", "input": {"command": call.command}}]
            )
            failed = call.code != 0
            output = f"Exit code {call.code}\n{call.output}" if failed else call.output
            block = {"type": "tool_result", "tool_use_id": used, "content": output, "is_error": failed}
            result = f"Error: {output}" if failed else {"stdout": call.output, "stderr": "", "interrupted": False}
            yield line("user", [block], toolUseResult=result)

        yield line("user", work.session.task)
        if work.session.page:
            yield from called(Call(f"cat docs/{work.session.script.removesuffix('.sh')}.md", work.session.page, 0))
        for place, call in enumerate(work.calls):
            if work.session.wanted and place == len(work.calls) - 1:
                yield line("user", work.session.wanted)
            yield from called(call)
        said = "It went through." if work.calls and not work.calls[-1].code else "I could not get it through."
        yield line("assistant", [{"type": "text", "text": said}])
