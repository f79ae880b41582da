"""The background exchange with a team's server: queued when a worker starts, and again after each exchange."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta

import anyio
from pydantic import JsonValue

from swarm_memory.schema.base import GLOBAL_PROJECT, TEAM
from swarm_memory.schema.errors import StorageError, SwarmMemoryError
from swarm_memory.schema.job import Job, Report
from swarm_memory.server.team.client import TeamClient
from swarm_memory.tools.team.cache import sync
from swarm_memory.tools.toolbox import Toolbox

SYNC = "team_sync"
"""The kind of the job, and its key: a project has one."""

LIMIT_S = 120.0
"""Seconds that one exchange may take."""

PULL_S = 5.0
"""Seconds to wait when someone requests memories before the first pull from the team, or has decided about one."""

MOST_PAUSE = timedelta(hours=6)
"""The longest pause before a server that does not answer is tried again; the pause doubles each time up to this."""


async def queue_sync(toolbox: Toolbox) -> None:
    """Queue an exchange with the team's server; if there is no team any more, forget what was kept of one.

    A server that did not answer is tried when its pause is over. Raises `StorageError`.
    """
    url, store = toolbox.settings.team.url, toolbox.store.team_cache
    caches = await store.caches(toolbox.scope)
    if url is None or not toolbox.team:
        if caches:
            await store.keep_caches(toolbox.scope, "", ())
        return
    project = toolbox.team[0].project.removeprefix(TEAM)
    await store.keep_caches(toolbox.scope, url, (project, GLOBAL_PROJECT))
    if any(cache.failures and cache.url == url for cache in caches):
        waiting = await toolbox.store.find_job(toolbox.scope, SYNC, SYNC)
        if waiting is not None and waiting.status == "queued":
            return
    await toolbox.queue(SYNC, SYNC, {"project": project})


async def pull(toolbox: Toolbox, *, again: bool = False) -> str | None:
    """Pull now if that was never done, or if `again`; return why it failed, if so: it is retried in the background.

    It takes at most `PULL_S`. Raises `StorageError`.
    """
    url, store = toolbox.settings.team.url, toolbox.store.team_cache
    if url is None or not toolbox.team:
        return None
    caches = [] if again else await store.caches(toolbox.scope)
    if any(each.checked_at or each.failures for each in caches if each.url == url):
        return None
    project = toolbox.team[0].project.removeprefix(TEAM)
    await store.keep_caches(toolbox.scope, url, (project, GLOBAL_PROJECT))
    done, failures = await _exchange(toolbox, project, PULL_S)
    return f"nothing was pulled from the team: {done['fault']}" if failures else None


async def sync_team(toolbox: Toolbox, job: Job, report: Report) -> Mapping[str, JsonValue]:
    """Exchange what is new with the team's server, and queue the next exchange. An unreachable server fails no job."""
    settings, project = toolbox.settings.team, str(job.payload.get("project"))
    if settings.url is None:
        return {"fault": "there is no team any more"}
    done, failures = await _exchange(toolbox, project, LIMIT_S)
    pause = timedelta(minutes=settings.every_minutes)
    pause = min(MOST_PAUSE, pause * 2 ** min(failures, 16)) if failures else pause
    await toolbox.queue(SYNC, SYNC, {"project": project}, after=pause)
    return done


async def _exchange(toolbox: Toolbox, project: str, limit_s: float) -> tuple[dict[str, JsonValue], int]:
    """Return what an exchange did, or its fault, and how often the server has failed since it last answered."""
    settings = toolbox.settings.team
    try:
        with anyio.fail_after(limit_s):
            return asdict(await sync(toolbox, TeamClient(settings), str(settings.url), project)), 0
    except StorageError:
        raise
    except (SwarmMemoryError, TimeoutError) as error:
        fault = str(error) or f"not finished after {limit_s:g} s"
        return {"fault": fault}, await toolbox.store.team_cache.note_check(toolbox.scope, toolbox.clock.now(), fault)
