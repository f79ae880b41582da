"""The user's own Claude Code as a chat model, without a key: one `claude -p` for each try.

The child must never reach this server again, run anything, read any file or leave a transcript: a trajectory is
untrusted text, and hooks of ours that ran in it would learn from their own questions without end.
"""

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelUnavailable, ModelWindowTooSmall
from swarm_memory.schema.settings import ChatProviderSettings
from swarm_memory.server.chat.exchange import Repair, Reply, exchange, schema_instruction
from swarm_memory.server.chat.metering import ChatMeter, Tally
from swarm_memory.server.child_process import OUTER_SESSION, Finished, run
from swarm_memory.server.folders import CHILD_VARIABLE
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.model.parse import parse_json
from swarm_memory.tools.ports.models import ChatAnswer, ChatRequest

MAX_OUTPUT_BYTES = 4_000_000
_DENIED = ["Read", "Edit", "Write", "Bash", "WebFetch"]
_SETTINGS = json.dumps({"disableAllHooks": True, "permissions": {"deny": _DENIED}})
_FIXED_FLAGS = (
    "--print",
    "--output-format=json",
    "--input-format=text",
    "--tools=",
    "--strict-mcp-config",
    '--mcp-config={"mcpServers":{}}',
    # The user's settings stay: they may hold how to sign in. Those of a project are a stranger's.
    "--setting-sources=user",
    "--safe-mode",
    f"--settings={_SETTINGS}",
    "--disable-slash-commands",
    "--no-session-persistence",
)


class ClaudeCliChatModel:
    """Asks `claude -p`.

    Temperature and seed have no flag there and are not sent. The prompt goes through standard input and the system
    prompt through a private file: neither can be seen in a list of processes.
    """

    is_local = False

    def __init__(
        self, settings: ChatProviderSettings, environ: Mapping[str, str], meter: ChatMeter, *, retries: int = 2
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._meter = meter
        self._retries = retries

    @property
    def name(self) -> str:
        return self._settings.name

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Answer as `ChatModel.complete` says; usage and cost are what Claude Code itself tells."""
        return await exchange(self.name, request, self._ask, self._meter, Tally())

    async def _ask(self, request: ChatRequest, repair: Repair | None, tally: Tally) -> Reply:
        program = shutil.which(self._settings.command, path=self._environ.get("PATH"))
        if program is None:
            raise ModelUnavailable(
                f"{self._settings.command} was not found: install Claude Code, or take claude_cli from chat.providers."
            )
        tally.tries += 1
        # An empty folder of its own: no CLAUDE.md, no settings and no file of a project are in reach.
        with tempfile.TemporaryDirectory(prefix="swarm-memory-", ignore_cleanup_errors=True) as folder:
            finished = await self._run(program, Path(folder), request, repair)
        return self._read(finished, request, tally)

    async def _run(self, program: str, folder: Path, request: ChatRequest, repair: Repair | None) -> Finished:
        schema = request.answer_schema
        system = request.system if schema is None else f"{request.system}\n\n{schema_instruction(schema)}"
        (folder / "system.md").write_text(system, encoding="utf-8", errors="replace")
        flags = ["--system-prompt-file=system.md"]
        if self._settings.model:
            flags.append(f"--model={self._settings.model}")
        if schema is not None and self._settings.structured in {"auto", "json_schema"}:
            flags.append(f"--json-schema={json.dumps(schema)}")
        try:
            return await run(
                [program, *_FIXED_FLAGS, *flags],
                stdin=_prompt(request, repair).encode("utf-8", "replace"),
                cwd=folder,
                environment=child_environment(self._environ, request.max_tokens, self._retries),
                max_output_bytes=MAX_OUTPUT_BYTES,
            )
        except OSError as error:
            raise ModelUnavailable(f"{program} could not be started ({error.strerror}).") from None

    def _read(self, finished: Finished, request: ChatRequest, tally: Tally) -> Reply:
        if finished.is_cut:
            raise ModelUnavailable(f"{self.name} printed more than {MAX_OUTPUT_BYTES:,} bytes and was ended.")
        result = _result(finished.output)
        if result is None:
            said = _shown(finished.error.decode("utf-8", "replace"))
            raise ModelUnavailable(f"{self.name} ended with code {finished.code} and without a result: {said}")
        tally.add(*_tokens(result.get("usage")), cost_usd=_number(result.get("total_cost_usd")))
        text = str(result.get("result") or "")
        if result.get("is_error") is not False or result.get("subtype") != "success":
            if "output token maximum" in text:
                return Reply.cut("", request)
            self._raise(str(result.get("subtype")), text)
        structured = result.get("structured_output")
        return Reply(json.dumps(structured) if isinstance(structured, dict) else text)

    def _raise(self, kind: str, text: str) -> None:
        if kind == "error_max_structured_output_retries":
            raise ModelAnswerInvalid(f"{self.name} gave no answer that is valid by the schema.")
        if "prompt is too long" in text.lower():
            raise ModelWindowTooSmall(f"{self.name} cannot take so long a request: {_shown(text)}")
        advice = " Run `claude` once and sign in." if "login" in text or "authenticate" in text else ""
        raise ModelUnavailable(f"{self.name} gave no answer ({kind}): {_shown(text)}{advice}")


def child_environment(environ: Mapping[str, str], max_tokens: int, retries: int) -> dict[str, str]:
    """Return the child's environment: the user's, less the marks of an outer session, with everything extra off."""
    return {name: value for name, value in environ.items() if name not in OUTER_SESSION} | {
        CHILD_VARIABLE: "1",
        # Without it `@path` in a prompt puts the file's content into it, tools or not.
        "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(max_tokens),
        "CLAUDE_CODE_MAX_RETRIES": str(retries),
        "MAX_THINKING_TOKENS": "0",
    }


def _prompt(request: ChatRequest, repair: Repair | None) -> str:
    # A first line of ours: a prompt that begins with a slash would be taken for a command.
    prompt = f"The request:\n\n{request.user}"
    if repair is None:
        return prompt
    return f"{prompt}\n\nYour former answer:\n\n{repair.text}\n\n{repair.message(request.answer_schema)}"


def _result(output: bytes) -> dict[str, JsonValue] | None:
    """Return the result object: the last line that is JSON, as warnings may stand before it."""
    for line in reversed(output.decode("utf-8", "replace").splitlines()):
        value = parse_json(line, MAX_OUTPUT_BYTES) if line.startswith("{") else None
        if isinstance(value, dict) and value.get("type") == "result":
            return value
    return None


def _tokens(usage: JsonValue) -> tuple[int, int]:
    counts = usage if isinstance(usage, dict) else {}
    read = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(_count(counts.get(key)) for key in read), _count(counts.get("output_tokens"))


def _count(value: JsonValue) -> int:
    return int(_number(value) or 0)


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
    return float(cast("float", value)) if is_number else None


def _shown(text: str) -> str:
    return redact(" ".join(text.split())[:2000]).text[:300] or "nothing was said"
