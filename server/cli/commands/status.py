"""`status`, `metrics` and `jobs`: how everything stands, and the queued work."""

from datetime import timedelta
from typing import Annotated, Literal, get_args

import click
from pydantic import Field

from swarm_memory.schema.errors import SwarmMemoryError
from swarm_memory.schema.job import Job, JobStatus
from swarm_memory.server.cli.command import command
from swarm_memory.server.cli.console import in_words, print_answer, print_json, say, say_notices
from swarm_memory.server.cli.invocation import Invocation
from swarm_memory.server.operations.memories import memory_status
from swarm_memory.server.operations.operation import Row

MEASURED = "0.1"
"""The share of tasks that work without notes while the worth of notes is measured."""

CHAT_DAYS = 30
"""How many days back `metrics` shows what models took."""

WEEKLY = ["week", "tasks", "success_rate", "steps_to_success", "tokens_per_success", "new_items"]
"""What people see of a week; `--json` has all."""

WORTH_KNOWING = {
    "enabled", "retrieve.k", "retrieve.token_budget", "hooks.inject", "hooks.at_calls", "hooks.briefing_items",
    "chat.learn_with", "chat.providers", "chat.daily_token_budget", "distill.redact_pii", "storage.db", "team.url",
}  # fmt: skip
"""Settings that are shown even if nobody changed them."""

JOB = {"status", "kind", "key", "attempts", "run_after", "error"}
"""What people see of a job; `--json` has all."""


@command()
def status(
    invocation: Invocation,
    verbose: Annotated[bool, "Also show embedder, judge, verdicts, effect, tools, sources and SQLite.", "-v"] = False,
    settings: Annotated[bool, "Show settings instead: those you changed, and a dozen more."] = False,
    everything: Annotated[bool, "With --settings: all of them.", "--all"] = False,
    as_json: bool = False,
) -> None:
    """Show what the notes did this week, the state of the bank, and what is wrong.

    \b
    Settings come from these sources, where later ones win: defaults, the project's .swarm/config.yaml,
    ~/.config/swarm-memory/config.yaml, environment SWARM_MEMORY_<SECTION>__<NAME>
    (also SWARM_MEMORY_DB and SWARM_MEMORY_SQLITE), --set KEY=VALUE.
    """
    invocation.has_said_notices = True
    if not settings:
        answer = invocation.call(memory_status)
        print_json(answer) if as_json else print_answer(answer) if verbose else _show_status(answer)
        return
    resolved = invocation.settings()
    if as_json:
        print_json({key: {"value": value, "origin": origin} for key, value, origin in resolved.rows()})
    else:
        shown = [row for row in resolved.rows() if everything or row[2] != "default" or row[0] in WORTH_KNOWING]
        print_answer([{"key": key, "value": value, "from": origin} for key, value, origin in shown])
        say("" if everything else "--all shows the others, all at their defaults.", dim=True)
    say_notices(resolved.notices, err=True)


def _show_status(answer: Row) -> None:
    """Print the essentials: the sentence, six lines, and what is wrong."""
    shared = {"for all projects": answer.get("global_memories"), "from the team": answer.get("team_memories")}
    jobs = {name: number for name, number in answer["jobs"].items() if name not in ("completed", "cancelled")}
    say(f"{answer['sentence']}\n", bold=True)
    say(f"project   {answer['project']}")
    say(f"memories  {in_words({**answer['memories'], **{name: each for name, each in shared.items() if each}})}")
    say(f"tasks     {answer['trajectories']:,} recorded: {in_words(answer['verdicts'])}".removesuffix(": none"))
    say(f"learning  {answer['learning']}")
    say(f"jobs      {in_words(jobs)}")
    say(f"database  {answer['database']}")
    say_notices(answer["notices"])


def _show_metrics(found: Row) -> None:
    if "weeks" in found:
        say(found.pop("sentence"), bold=True)
        print_answer([{name: week[name] for name in WEEKLY} for week in found.pop("weeks")])
        found["effect"] = found["effect"] or "no task has an outcome yet"
    print_answer(found)


@command(show=_show_metrics)
async def metrics(
    site: Invocation,
    measure: Annotated[Literal["on", "off"] | None, "Start or stop measuring what notes are worth."] = None,
) -> Row:
    """Show the outcomes of this project's tasks by week, the effect of memory, and what models used by day.

    To measure what notes are worth, some sessions must work without any: --measure on picks one in ten, at random.
    Success, steps, failed calls and tokens of both groups are then compared, with confidence intervals.
    """
    from swarm_memory.tools.credit.metrics import memory_effect, sentence, weekly_metrics

    if measure is not None:
        return {"measured": _measured(site, MEASURED if measure == "on" else "0")}
    toolbox = await site.for_reading()
    return {
        "sentence": await sentence(toolbox, await toolbox.store.statistics(toolbox.scope, toolbox.embedder.name)),
        "weeks": await weekly_metrics(toolbox),
        "effect": await memory_effect(toolbox),
        "chat_days": await toolbox.store.chat_days(toolbox.clock.now() - timedelta(days=CHAT_DAYS)),
    }


def _measured(site: Invocation, rate: str) -> str:
    """Set the share of tasks that work without notes in the user's own settings, and return what that means."""
    from swarm_memory.server.cli.file_changes import planned_setting
    from swarm_memory.server.hosts.settings_files import apply

    if change := planned_setting("credit.holdout_rate", rate):
        apply([change])
    resolved = site.settings()
    share, origin = resolved.settings.credit.holdout_rate, resolved.origin.get("credit.holdout_rate")
    if share != float(rate):
        return f"{origin} sets credit.holdout_rate to {share:g}, which overrides your own settings"
    if share:
        return "one session in ten now works without any notes, in all your projects; `metrics` shows the effect"
    return "every task is shown the notes that fit it"


jobs = click.Group("jobs", help="List queued jobs, or run them on a machine without a server, which does so itself.")


@command(
    of=jobs, name="list", show=lambda found: print_answer([each.model_dump(mode="json", include=JOB) for each in found])
)
async def list_jobs(
    site: Invocation,
    everything: Annotated[bool, "Also list jobs that have ended.", "--all"] = False,
    limit: Annotated[int, Field(ge=1, le=1000)] = 50,
) -> list[Job]:
    """List this project's jobs, first those that are waiting or running."""
    toolbox = await site.for_reading()
    wanted: tuple[JobStatus, ...] = get_args(JobStatus) if everything else ("queued", "running")
    return await toolbox.store.list_jobs(toolbox.scope, wanted, limit)


@command(of=jobs, show=print_answer)
async def work(
    site: Invocation,
    until_idle: Annotated[bool, "Do what is due, then exit."] = False,
    early: Annotated[bool, "With --until-idle: also do what is not due yet."] = False,
    session: Annotated[str | None, "With --transcript: a session to queue first."] = None,
    transcript: Annotated[str | None, "The session's transcript; hooks pass it."] = None,
) -> Row:
    """Run queued jobs: forever, or with --until-idle until none is due.

    A job is due a few seconds after its task's last turn, or immediately when the session has ended.
    """
    from swarm_memory.server.hosts.transcript import read_trajectories
    from swarm_memory.server.jobs.team import queue_sync
    from swarm_memory.server.jobs.transcripts import queue_session
    from swarm_memory.server.missed_hooks import note_missed
    from swarm_memory.server.switch import off_by
    from swarm_memory.server.wiring import make_worker

    if (early and not until_idle) or (session is None) != (transcript is None):
        raise click.UsageError("--early needs --until-idle, and --session and --transcript need each other")
    try:
        if transcript is not None:
            is_off = off_by(site.root, site.settings().settings.enabled)
            if is_off or next(read_trajectories(transcript), None) is None:
                return {"jobs": 0}  # no bank is created for that
        toolbox = await site.toolbox()
        if session is not None and transcript is not None:
            await queue_session(toolbox, session, transcript)
        await queue_sync(toolbox)
        worker = make_worker(toolbox, site.place, lambda: site.settings().settings)
        if until_idle:
            return {"jobs": await (worker.work_off_all() if early else worker.work_off_due())}
        await worker.run()
        return {"jobs": 0}
    except SwarmMemoryError as error:
        if transcript is not None:  # started by a hook, whose output nobody sees
            note_missed(site.root, "SessionEnd", str(error))
        raise
