"""The user's own Claude Code as a chat model, without a key: one `claude -p` for each try.

The child must never reach this server again, run anything, read any file or leave a transcript: a trajectory is
untrusted text, and our hooks, if they ran in the child, would learn from their own questions without end.
"""

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from swarm_memory.schema.errors import ModelAnswerInvalid, ModelUnavailable, ModelWindowTooSmall
from swarm_memory.schema.settings import ChatProviderSettings
from swarm_memory.server.chat.metering import ChatMeter, MeteredModel, Reply, add, shown, system_with_schema
from swarm_memory.server.child_process import OUTER_SESSION, Finished, run
from swarm_memory.server.folders import CHILD_VARIABLE
from swarm_memory.tools.ports.models import ChatRequest, ChatUsage

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
    # The user's settings stay: they may hold how to sign in. A project's settings are a stranger's.
    "--setting-sources=user",
    "--safe-mode",
    f"--settings={_SETTINGS}",
    "--disable-slash-commands",
    "--no-session-persistence",
    "--system-prompt-file=system.md",
)


class _Usage(BaseModel):
    model_config = ConfigDict(defer_build=True)
    input_tokens: int = Field(default=0, ge=0)
    cache_creation_input_tokens: int = Field(default=0, ge=0)
    cache_read_input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)


class _Result(BaseModel):
    """What `claude -p --output-format=json` prints at its end."""

    model_config = ConfigDict(defer_build=True)
    type: Literal["result"]
    subtype: str = ""
    is_error: bool = True
    result: str | None = None
    structured_output: JsonValue = None
    total_cost_usd: float | None = Field(default=None, ge=0, lt=1e9)
    usage: _Usage = _Usage.model_construct()


class ClaudeCliChatModel(MeteredModel):
    """Calls `claude -p`.

    It has no flags for temperature and seed, which are not sent. The prompt goes through standard input and the system
    prompt through a private file: neither shows in a list of processes. Claude Code itself reports usage and cost.
    """

    def __init__(
        self, settings: ChatProviderSettings, environ: Mapping[str, str], meter: ChatMeter, *, retries: int = 2
    ) -> None:
        fault = "this process was itself started by a claude_cli call." if environ.get(CHILD_VARIABLE) else None
        super().__init__(settings.name, meter, fault)
        self._settings = settings
        self._environ = environ
        self._retries = retries

    async def _ask(self, request: ChatRequest, usage: ChatUsage) -> Reply:
        """Run the command in an empty folder of its own, with no CLAUDE.md, settings or project file in reach."""
        program = shutil.which(self._settings.command, path=self._environ.get("PATH"))
        if program is None:
            raise ModelUnavailable(
                f"{self._settings.command} was not found: install Claude Code or remove claude_cli from chat.providers."
            )
        command = [program, *_FIXED_FLAGS, f"--json-schema={json.dumps(request.answer_schema)}"]
        if self._settings.model:
            command.append(f"--model={self._settings.model}")
        usage.tries += 1
        with tempfile.TemporaryDirectory(prefix="swarm-memory-", ignore_cleanup_errors=True) as folder:
            place = Path(folder)
            (place / "system.md").write_text(system_with_schema(request), encoding="utf-8", errors="replace")
            try:
                finished = await run(
                    command,
                    # The first line is ours: a prompt that begins with a slash would be taken for a command.
                    stdin=f"The request:\n\n{request.user}".encode("utf-8", "replace"),
                    cwd=place,
                    environment=self._child_environment(request.max_tokens),
                    max_output_bytes=MAX_OUTPUT_BYTES,
                )
            except OSError as error:
                raise ModelUnavailable(f"{program} could not be started ({error.strerror}).") from None
        return self._read(finished, usage)

    def _child_environment(self, max_tokens: int) -> dict[str, str]:
        """Return the user's environment without the marks of an outer session, with everything extra switched off."""
        return {name: value for name, value in self._environ.items() if name not in OUTER_SESSION} | {
            CHILD_VARIABLE: "1",
            # Without it, `@path` in a prompt inserts the file's content there, tools or not.
            "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(max_tokens),
            "CLAUDE_CODE_MAX_RETRIES": str(self._retries),
            "MAX_THINKING_TOKENS": "0",
        }

    def _read(self, finished: Finished, usage: ChatUsage) -> Reply:
        if finished.is_cut:
            raise ModelUnavailable(f"{self.name} printed more than {MAX_OUTPUT_BYTES:,} bytes and was stopped.")
        try:
            # Warnings may precede the result.
            result = _Result.model_validate_json(finished.output.rstrip().rpartition(b"\n")[2])
        except ValidationError:
            said = shown(finished.error.decode("utf-8", "replace"))
            raise ModelUnavailable(
                f"{self.name} exited with code {finished.code} and without a result: {said}"
            ) from None
        used, text = result.usage, result.result or ""
        read = used.input_tokens + used.cache_creation_input_tokens + used.cache_read_input_tokens
        add(usage, read, used.output_tokens, result.total_cost_usd)
        if not result.is_error and result.subtype == "success":
            structured = result.structured_output
            return Reply(json.dumps(structured) if isinstance(structured, dict) else text)
        if "output token maximum" in text:
            return Reply("", is_cut=True)
        if result.subtype == "error_max_structured_output_retries":
            raise ModelAnswerInvalid(f"{self.name} gave no answer that matches the schema.")
        if "prompt is too long" in text.lower():
            raise ModelWindowTooSmall(f"{self.name} cannot take a request this long: {shown(text)}")
        advice = " Run `claude` once and sign in." if "login" in text or "authenticate" in text else ""
        raise ModelUnavailable(f"{self.name} gave no answer ({result.subtype}): {shown(text)}{advice}")
