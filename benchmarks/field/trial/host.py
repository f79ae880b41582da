"""One session as Claude Code runs it: the user's prompts, calls through a shell, our hooks and server.

The hooks and the server are those that `swarm-memory install` writes into the settings of the session's own home.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stdio_server import Server

from trial.projects import Place, Project
from trial.transcript import Transcript

CALL_S, END_S = 120.0, 10.0
MAX_OUTPUT_CHARS = 30_000
OWN_COMMAND = (sys.executable, "-I", "-m", "swarm_memory.server.cli")
OURS = "mcp__swarm-memory__"
OFFERED = ("retrieve_memories", "remember")
"""The tools of our server that a player is shown and may call."""
LEARN_WITH = {"rules": "rules", "agent": "agent", "model": "endpoint"}
WORK_S = 300.0
BANK = "bank.db"
"""The backup of an ended session's bank."""


class Session:
    """One session. `model`: the name that the transcript gives to the player."""

    def __init__(self, place: Place, project: Project, name: str, arm: str, model: str = "player") -> None:
        self.place, self.arm, self._prompts = place, arm, list(project.prompts[name])
        self.ended = False
        self._id = str(uuid.uuid4())
        slug = re.sub(r"[^A-Za-z0-9]", "-", str(place.root))
        path = place.home / ".claude" / "projects" / slug / f"{self._id}.jsonl"
        self.transcript = Transcript(path, self._id, place.root, model)
        self._asked = False
        self._groups: list[int] = []
        self._hooks: dict[str, list[dict[str, Any]]] = {}
        self._server: Server | None = None

    def install(self, settings: Path | None = None, before: Place | None = None) -> None:
        """Install our server and hooks for this home, except in the arm `none`.

        `settings`: the user's settings file, which names the model of the arm `model`. `before`: where an earlier
        session of the same user was played; this session continues with its bank.
        """
        if self.arm == "none":
            return
        if settings is not None:
            target = self.place.home / ".config" / "swarm-memory" / "config.yaml"
            target.parent.mkdir(parents=True)
            target.write_bytes(settings.read_bytes())
        self._own("install", "--user", "--agent", "claude", "--yes", "--learn-with", LEARN_WITH[self.arm])
        if before is not None and (bank := before.folder / BANK).is_file():
            state = Path(".local", "state", "swarm-memory")  # the record of the banks that this user made
            shutil.copytree(before.home / state, self.place.home / state, dirs_exist_ok=True)
            self._own("bank", "restore", "--yes", str(bank))
        claude = self.place.home / ".claude"
        self._hooks = json.loads((claude / "settings.json").read_text(encoding="utf-8"))["hooks"]

    def open(self) -> str:
        """Start the server and the session; return what the agent reads first."""
        shown = ""
        if self.arm != "none":
            entry = json.loads((self.place.home / ".claude.json").read_text(encoding="utf-8"))
            run = entry["mcpServers"]["swarm-memory"]
            with (self.place.folder / "server.log").open("ab") as log:
                pipe, environment = subprocess.PIPE, self._environment()
                # A child of this process, as the hooks are: they find the server by their common parent.
                command = [run["command"], *run["args"]]
                process = subprocess.Popen(
                    command, cwd=self.place.root, env=environment, stdin=pipe, stdout=pipe, stderr=log
                )
                self._server = Server(process)
            said = self._server.initialize()
            shown = self._fire("SessionStart", "startup", source="startup")
            if self.arm == "agent":
                shown = self._tool_said(said) + shown
        return shown + self._prompt()

    def run(self, command: str) -> str:
        """Make one shell call in the project's folder; return what the agent sees."""
        arguments = {"command": command}
        call_id = self.transcript.call("Bash", arguments)
        about = {"tool_name": "Bash", "tool_input": arguments, "tool_use_id": call_id}
        before = self._fire("PreToolUse", "Bash", call_id, **about)
        output, code = self._shell(command)
        failed = code != 0
        shown = f"Exit code {code}\n{output}".rstrip() if failed else output
        details: Any = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
        self.transcript.result(call_id, shown, is_error=failed, details=f"Error: {shown}" if failed else details)
        if failed:
            after = self._fire("PostToolUseFailure", "Bash", call_id, **about, error=shown, is_interrupt=False)
        else:
            after = self._fire("PostToolUse", "Bash", call_id, **about, tool_response=details)
        return f"{before}{shown or '(no output)'}\n{after}"

    def remember(self, arguments: dict[str, Any]) -> str:
        """Call the server's tool `remember` and return its answer."""
        return self._call("remember", arguments)

    def retrieve(self, query: str) -> str:
        """Call the server's tool `retrieve_memories` and return its answer."""
        return self._call("retrieve_memories", {"query": query})

    def _call(self, name: str, arguments: dict[str, Any]) -> str:
        if self._server is None:
            return "No such tool in this session.\n"
        tool = OURS + name
        call_id = self.transcript.call(tool, arguments)
        about = {"tool_name": tool, "tool_input": arguments, "tool_use_id": call_id}
        before = self._fire("PreToolUse", tool, call_id, **about)
        answer = self._server.call(name, **arguments)
        content, failed = answer["content"], answer.get("isError", False)
        self.transcript.result(call_id, content, is_error=failed, details=content)
        event, key = ("PostToolUseFailure", "error") if failed else ("PostToolUse", "tool_response")
        after = self._fire(event, tool, call_id, **about, **{key: content})
        return f"{before}{content[0]['text']}\n{after}"

    def say(self, text: str) -> str:
        """End a turn with an answer; return what follows: a question of a hook, the next prompt, or the end."""
        if text.strip():  # a turn that a hook continued may end without further text
            self.transcript.said(text)
        shown = self._fire("Stop", "", stop_hook_active=self._asked)
        if self._asked:
            return shown
        return shown + (self._prompt() if self._prompts else "The user has no further prompt: end the session.\n")

    def end(self) -> str:
        """End the session: wait until it is learned from, and keep a backup of the bank next to the home."""
        for group in self._groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self._fire("SessionEnd", "", reason="prompt_input_exit")
        self.ended = True
        if self._server is None:
            return "Ended.\n"
        self._server.process.communicate(timeout=END_S)
        self._own("jobs", "work", "--until-idle")
        if not (self.place.root / ".swarm" / "memory.db").is_file():
            return "Ended; nothing was kept.\n"
        self._own("bank", "backup", str(self.place.folder / BANK))
        kept: list[dict[str, Any]] = json.loads(self._own("memories", "list", "--json"))
        return "Ended. Kept:\n" + "".join(f"- {each['title']}\n" for each in kept)

    def _prompt(self) -> str:
        prompt = self._prompts.pop(0)
        return f"{prompt}\n{self._fire('UserPromptSubmit', '', prompt=prompt)}"

    def _fire(self, event: str, subject: str, call_id: str | None = None, **fields: Any) -> str:
        """Run an event's hooks; record and return what they add, framed as Claude Code frames it.

        `subject`: what an entry's matcher is compared with.
        """
        self._asked = self._asked and event != "Stop"
        path = self.transcript.path
        said = {"session_id": self._id, "transcript_path": str(path), "cwd": str(self.place.root)}
        said |= {"permission_mode": "default", "hook_event_name": event, **fields}
        name, framed = f"{event}:{subject}" if subject else event, ""
        entries = [each for each in self._hooks.get(event, []) if _matches(each.get("matcher", ""), subject)]
        answers = [self._hook(hook, said) for each in entries for hook in each["hooks"]]
        if event == "UserPromptSubmit":  # a prompt enters the transcript only after its hooks have run
            self.transcript.prompt(fields["prompt"])
        for answer in answers:
            if added := answer.get("hookSpecificOutput", {}).get("additionalContext"):
                self.transcript.context(event, name, added, call_id)
                self._asked = self._asked or event == "Stop"  # the turn continues with it
                framed += f"<system-reminder>\n{name} hook additional context: {added}\n</system-reminder>\n"
            if answer.get("decision") == "block":
                self._asked = True
                asked = f"Stop hook feedback:\n{answer['reason']}"
                self.transcript.prompt(asked, is_meta=True)
                framed += f"{asked}\n"
        return framed

    def _hook(self, hook: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
        command = [hook["command"], *hook.get("args", [])]
        try:
            done = subprocess.run(
                command,
                cwd=self.place.root,
                env=self._environment(),
                input=json.dumps(said),
                stdout=subprocess.PIPE,
                text=True,
                timeout=hook["timeout"],
            )
        except subprocess.TimeoutExpired:
            self._note(f"{said['hook_event_name']}: no answer within {hook['timeout']} s")
            return {}
        return json.loads(done.stdout) if done.stdout.strip() else {}

    def _shell(self, command: str) -> tuple[str, int]:
        """Return a command's output and exit code. What it starts in the background runs until the session ends."""
        with tempfile.TemporaryFile() as file:
            process = subprocess.Popen(
                ["bash", "-c", command],
                cwd=self.place.root,
                env=self.place.environment() | {"CLAUDECODE": "1"},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code, late = process.wait(CALL_S), ""
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code, late = 143, f"\nCommand timed out after {CALL_S:g} s"
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 0)
                self._groups.append(process.pid)  # something is still running
            file.seek(0)
            output = file.read().decode("utf-8", "replace")
        return output[:MAX_OUTPUT_CHARS].rstrip("\n") + late, code

    def _tool_said(self, server: Mapping[str, Any]) -> str:
        """Return what Claude Code shows the agent about our server and the tools that a player may call."""
        assert self._server is not None
        about = [server.get("instructions", "")]
        for tool in self._server.ask("tools/list", {})["tools"]:
            if tool["name"] in OFFERED:
                schema = json.dumps(tool["inputSchema"])
                about.append(f"Tool {OURS}{tool['name']}: {tool['description']}\nArguments: {schema}")
        return "<system-reminder>\n# MCP server swarm-memory\n{}\n</system-reminder>\n".format("\n\n".join(about))

    def _own(self, *words: str) -> str:
        """Run our command line in the project as the user; return its stdout. Raises `CalledProcessError`."""
        with (self.place.folder / "commands.log").open("ab") as errors:
            return subprocess.run(
                [*OWN_COMMAND, *words],
                cwd=self.place.root,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                timeout=WORK_S,
                check=True,
            ).stdout

    def _environment(self) -> dict[str, str]:
        """Return the environment of Claude Code's own process when a person uses it interactively."""
        return self.place.environment() | {"CLAUDE_PROJECT_DIR": str(self.place.root), "CLAUDE_CODE_ENTRYPOINT": "cli"}

    def _note(self, text: str) -> None:
        with (self.place.folder / "hooks.log").open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%H:%M:%S')} {text}\n")


def _matches(matcher: str, subject: str) -> bool:
    return matcher in ("", "*") or re.fullmatch(matcher, subject) is not None
