"""Gemini CLI: where it keeps its chats, what its hooks say and may answer, and our entries in its settings."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from swarm_memory.server.hosts.host import InstallScope, Said, context_in
from swarm_memory.server.hosts.settings import InstalledHost, command_line
from swarm_memory.server.hosts.settings_files import Json

SHELL = "run_shell_command"
_EXIT_CODE = re.compile(r"^Exit Code: (-?[0-9]{1,10})\s*$", re.M)


class GeminiCLI(InstalledHost):
    """Gemini CLI, which has hooks and servers in one file. Before a tool's call it takes no context."""

    name = "gemini"
    title = "Gemini CLI"
    programs = ("gemini",)
    after_install = "Restart Gemini CLI to use it; it warns of a project's hooks that are new or changed."
    events: ClassVar[Mapping[str, str]] = {
        "SessionStart": "SessionStart",
        "UserPromptSubmit": "BeforeAgent",
        "PostToolUseFailure": "AfterTool",
        "Stop": "AfterAgent",
        "SessionEnd": "SessionEnd",
    }
    matchers: ClassVar[Mapping[str, str]] = {"PostToolUseFailure": SHELL}

    def home(self) -> Path:
        """Return the user's own settings; Antigravity makes their folder too."""
        return self._folder() / "settings.json"

    def folders(self) -> tuple[str, ...]:
        """Return the folder of the chats of all projects."""
        return (str(self._folder() / "tmp"),)

    def _folder(self) -> Path:
        return Path(os.environ.get("GEMINI_CLI_HOME") or Path.home(), ".gemini")

    def heard(self, event: str, said: Said) -> Said:
        """Return an event in our words; nothing of a session that is resumed, nor of a command that worked."""
        ours: Said = {**said, "hook_event_name": event}
        if not str(said.get("transcript_path") or "").endswith(".jsonl"):
            ours.pop("transcript_path", None)  # before 0.40 a chat is one JSON document that is written again each time
        if event == "SessionStart" and said.get("source") == "resume":
            return {}
        if event != "PostToolUseFailure":
            return ours
        response = said.get("tool_response")
        text = str(response.get("llmContent") or "") if isinstance(response, dict) else ""  # pyright: ignore
        codes = _EXIT_CODE.findall(text[-2000:])
        return {**ours, "error": text} if codes and codes[-1] != "0" else {}

    def answered(self, event: str, answer: Said) -> Said:
        """Return what a hook may answer; at the end of a turn and of a session there is nothing to say."""
        said: Said = {"systemMessage": answer["systemMessage"]} if answer.get("systemMessage") else {}
        context = context_in(answer)
        if context and event in ("SessionStart", "UserPromptSubmit", "PostToolUseFailure"):
            said["hookSpecificOutput"] = {"hookEventName": self.events[event], "additionalContext": context}
        return said

    def where(self, scope: InstallScope, root: Path) -> tuple[Path, Path]:
        """Return the file, twice."""
        path = root / ".gemini" / "settings.json" if scope == "project" else self.home()
        return path, path

    def hook(self, event: str, words: Sequence[str], timeout_s: int) -> Json:
        """Return the entry of a hook; Gemini CLI counts in milliseconds."""
        name = f"swarm-memory {words[-1]}"
        entry = {"type": "command", "name": name, "command": command_line(words), "timeout": timeout_s * 1000}
        return {"hooks": [entry]}


HOST = GeminiCLI()
