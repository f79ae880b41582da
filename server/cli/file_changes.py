"""File changes that commands plan: shown, confirmed, written, reported; and the user's choice of who learns."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.settings import SMALL_CLAUDE, Settings
from swarm_memory.server.cli.console import print_json, say
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.config import with_setting
from swarm_memory.server.hosts.settings_files import FileChange, apply, planned_text
from swarm_memory.server.location import user_file

KEY = "chat.learn_with"
WAYS = ("agent", "rules", "claude", "endpoint")
TASK_TOKENS = 20_000
"""Roughly the tokens that a model takes per task, shown to it twice, each time in `judge.max_trajectory_tokens`."""


def carry_out(
    changes: Sequence[FileChange],
    done: str,
    *,
    dry_run: bool,
    as_json: bool,
    asks: bool = False,
    write: Callable[[Sequence[FileChange]], Sequence[Path]] = apply,
    **more: object,
) -> None:
    """Write the changes and report them; with `dry_run` only show them, with `asks` show and confirm them first.

    `done` is the state afterwards, such as `installed`; `more` is added to the JSON answer. Raises what `write` raises.
    """
    if (dry_run or asks) and not as_json:
        for change in changes:
            say(change.diff())
    if changes and asks and not dry_run:
        click.confirm("Write these changes?", abort=True, err=True)
    copies = list(write(changes)) if changes and not dry_run else []
    if as_json:
        files = [{"path": change.path, "diff": change.diff()} for change in changes]
        print_json({"status": "planned" if dry_run else done, **more, "files": files, "backups": copies})
        return
    if not changes:
        say("Nothing to change." if dry_run else f"Nothing to change: already {done}.")
    for change in () if dry_run else changes:
        say(f"{'Removed' if change.after is None else 'Wrote'} {change.path}")
    for path in copies:
        say(f"Backup: {path}", dim=True)


def planned_setting(key: str, value: str) -> FileChange | None:
    """Return the change that sets a key in the user's settings file; None if already so. Raises `ConfigError`."""
    path = user_file(os.environ)
    return planned_text(path, lambda before: with_setting(before, key, value, str(path)))


def planned_learn_with(
    invocation: Invocation, given: str | None, *, may_ask: bool, agent_asks: bool
) -> FileChange | None:
    """Return the change to the user's settings file that sets who learns; None where nothing is to be written.

    `given` is the answer on the command line. Without it the user is asked, provided that `may_ask` and that no setting
    answers it already; the agent itself is offered only with `agent_asks`. Raises `ConfigError` where the answer is not
    possible here, or the file cannot be read or edited.
    """
    resolved = invocation.settings()
    if given is None and may_ask and not {KEY, "chat.providers"} & resolved.origin.keys():
        given = _asked(resolved.settings, agent_asks)
    if given is None:
        return None
    if lack := _lack(given, resolved.settings):
        raise ConfigError(f"--learn-with {given}: {lack}")
    return planned_setting(KEY, given)


def is_asked_at() -> bool:
    """Whether a person is at the terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def say_who_learns(settings: Settings) -> None:
    """Say who learns from finished tasks now, and how to change it."""
    names = ", ".join(provider.name for provider in settings.chat.learning)
    if settings.chat.learn_with == "agent":
        who = "The agent is asked once, at the end of a task that is worth it; otherwise rules learn from it"
    elif names:
        who = f"Tasks that are worth it are shown to {names} in the background; rules learn from all others"
    else:
        who = "Rules learn from finished tasks, and no model is asked"
    say(f"{who}. `swarm-memory install --learn-with {'|'.join(WAYS)}` changes that.")


def _lack(way: str, settings: Settings) -> str | None:
    """Return what is missing here for a way of learning; None where it is possible."""
    providers = settings.chat.providers
    if way == "endpoint" and not providers:
        return "no model is named: name one in chat.providers in your own settings (docs/MANUAL.md, With a chat model)"
    command = next((each.command for each in providers if each.provider == "claude_cli"), "claude")
    if way == "claude" and shutil.which(command) is None:
        return f"`{command}` is not on your PATH"
    return None


def _asked(settings: Settings, agent_asks: bool) -> str:
    """Ask the user who may learn from finished tasks, offering the ways that are possible here."""
    chat = settings.chat
    meanings = {
        "agent": "the agent that did the task: it is asked once after its answer, if the task was worth it and a\n"
        "            person is there; this costs one further request in its session",
        "rules": "nobody: nothing is sent, nothing is spent, and little is learned",
        "claude": f"your own Claude Code, with your own sign-in: `claude -p --model {SMALL_CLAUDE}`",
        "endpoint": ", ".join(f"{each.name} at {each.url}" for each in chat.providers),
    }
    possible = [way for way in WAYS if (way != "agent" or agent_asks) and _lack(way, settings) is None]
    budget = "with no limit" if chat.daily_token_budget is None else f"at most {chat.daily_token_budget:,}"
    say("Who learns from finished tasks? Whoever did the work knows what it taught.", bold=True)
    for way in possible:
        say(f"  {way:9} {meanings[way]}")
    if "claude" not in possible:
        say(f"  claude    not possible here: {_lack('claude', settings)}")
    say(
        "A model is asked in the background, and only about tasks that were long, in which something failed, or in\n"
        "which you corrected the agent. It is sent the task's words and what was done, without secrets or personal\n"
        f"data, at most {settings.judge.max_trajectory_tokens:,} tokens of it, twice: about {TASK_TOKENS:,} tokens a "
        f"task, {budget} per day and project."
    )
    return click.prompt("Learn with", type=click.Choice(possible), default=possible[0])
