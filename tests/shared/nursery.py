"""A process that has imported and used our whole package, and forks for each requested command: see `forked.py`."""

import atexit
import gc
import json
import logging
import os
import pkgutil
import runpy
import select
import shutil
import socket
import sys
import tempfile
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
from mcp.client import Client

import swarm_memory
from swarm_memory.schema.settings import EmbeddingSettings, Settings
from swarm_memory.server.cli.commands.setup import SESSION
from swarm_memory.server.hooks.events import answer_hook
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.server.mcp.app import build_server
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.server.wiring import open_toolbox, place_of
from swarm_memory.tools.learn.learn import learn

LATE = ("anyio._backends._asyncio", "rich.logging")
"""Modules that other packages import only when they need them."""

TASK = "The test suite fails with SettingsError: config/test.toml not found. Make the tests pass."


def warm_up() -> None:
    """Do the main job once, so that every fork has the patterns, models and tables that the first use creates."""
    with tempfile.TemporaryDirectory(dir=os.environ["HOME"]) as folder:
        os.environ["HOME"] = folder  # the records of banks are kept there
        anyio.run(main_job, Path(folder))
    for thread in threading.enumerate():
        if thread is not threading.current_thread():  # a lock that a thread holds would stay locked in every fork
            thread.join()
    logging.basicConfig(handlers=[], level=logging.WARNING, force=True)  # a server sets up its own


async def main_job(folder: Path) -> None:
    """Learn, remember and retrieve in an empty project, through a server and a host's hooks."""
    settings = Settings(embedding=EmbeddingSettings(provider="static"))
    place = place_of(folder, settings)
    bank = ServedBank(lambda: open_toolbox(place, settings))
    transcript = shutil.copy(SESSION, folder)
    async with Client(build_server(bank)) as client:
        await client.list_tools()
        for trajectory in read_trajectories(transcript):
            await learn(await bank.toolbox(), trajectory)
        await client.call_tool("remember", {"text": "Never push to main without asking"})
        await client.call_tool("retrieve_memories", {"query": TASK})
        for name in ("SessionStart", "UserPromptSubmit", "PostToolUseFailure", "UserPromptSubmit", "Stop"):
            session = {"session_id": "s1", "transcript_path": str(transcript), "hook_event_name": name, "prompt": TASK}
            failed = {"tool_name": "Bash", "tool_input": {"command": "pytest"}, "error": "Exit code 1"}
            await answer_hook(bank.toolbox, session | failed, "hook", place, f"claude {name} 0")


def forking(asked: socket.socket) -> dict[str, Any]:
    """Fork for each requested command until the socket `asked` is closed; return the command in the fork."""
    running: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for ready in select.select([asked, *running], [], [])[0]:
            if isinstance(ready, int):
                pid, caller = running.pop(ready)
                os.close(ready)
                with caller:
                    caller.send(b"%d" % os.waitpid(pid, 0)[1])
                continue
            command, handles, *_ = socket.recv_fds(asked, 1_000_000, 4)
            if not command:
                sys.exit()
            way, *streams = handles
            pid, caller = os.fork(), socket.socket(fileno=way)
            if pid == 0:
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                for handle in (*streams, *running, *(each.detach() for _, each in running.values()), caller.detach()):
                    os.close(handle)
                return json.loads(command)
            for stream in streams:
                os.close(stream)
            caller.send(b"%d" % pid)
            running[os.pidfd_open(pid)] = pid, caller


def become(command: dict[str, Any]) -> None:
    """Become the requested process."""
    os.chdir(command["folder"])
    os.environ.clear()
    os.environ.update(command["environment"])
    way, *sys.argv = command["arguments"]
    try:
        if way == "-c":
            text, sys.argv[0] = sys.argv[0], way
            exec(text, {"__name__": "__main__"})
        else:
            runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if isinstance(ended.code, int | None):
            end(ended.code or 0)
        raise
    end(0)


def end(code: int) -> None:
    """End as Python does, but without tearing down everything imported, which costs more than most commands.

    Return only if the printed output cannot be flushed: Python then reports the error.
    """
    threading._shutdown()  # type: ignore[attr-defined] # waits for threads that are no daemons
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF)


if __name__ == "__main__":
    for module in pkgutil.walk_packages(swarm_memory.__path__, "swarm_memory."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    for name in LATE:
        import_module(name)
    warm_up()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as way:
        asked_for = forking(way)
    become(asked_for)
