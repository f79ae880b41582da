"""Lists of what there is besides memories: jobs, tools, sources, benchmarks, people, settings."""

from swarm_memory.schema.errors import InputError, NotFoundError
from swarm_memory.schema.job import JobStatus
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.source import SOURCE_KINDS, SourceKind
from swarm_memory.server.config import SECTIONS
from swarm_memory.server.jobs.control import cancel, resume
from swarm_memory.server.viewer.page import ActionResult, Page, PageRequest, Route
from swarm_memory.tools.benchmark.report import run_metadata
from swarm_memory.tools.sources.sources import search_sources
from swarm_memory.tools.tool_memory.advise import errors_seen, tools_in_use

MOST = 100
"""At most this many rows of a list are shown."""

HITS = 10
STATUSES: tuple[JobStatus, ...] = ("running", "queued", "failed", "cancelled", "completed")


async def jobs(asked: PageRequest) -> Page:
    """List the newest jobs; where a status is given, only those with it."""
    wanted = asked.query.get("status", "")
    statuses: dict[str, JobStatus] = {each: each for each in STATUSES}
    named = (statuses[wanted],) if wanted in statuses else STATUSES
    found = await asked.toolbox.store.list_jobs(asked.toolbox.scope, named, MOST)
    return Page("jobs.html", {"jobs": found, "statuses": STATUSES, "status": wanted, "most": MOST})


async def change_job(asked: PageRequest) -> ActionResult:
    """Cancel a job, or resume one that ended without a result. Raises `InputError`, `NotFoundError`."""
    if asked.form.get("action") not in ("cancel", "resume"):
        raise InputError("action must be cancel or resume")
    do = cancel if asked.form["action"] == "cancel" else resume
    job = await do(asked.toolbox, asked.path["job_id"])
    asked.wake_worker()
    return ActionResult("/jobs", f"Job {job.id} is {job.status}.")


async def tools(asked: PageRequest) -> Page:
    """List the tools and the errors of all, or show one tool. Raises `InputError`, `NotFoundError`."""
    name = asked.query.get("tool", "")
    if name:
        (use,) = await tools_in_use(asked.toolbox, name)
        return Page("tool.html", {"use": use, "errors": await errors_seen(asked.toolbox, use.names)})
    every, first = await tools_in_use(asked.toolbox), (asked.page - 1) * MOST
    shown = {
        "tools": every[first : first + MOST],
        "has_more": len(every) > first + MOST,
        "page": asked.page,
        "errors": await errors_seen(asked.toolbox),
    }
    return Page("tools.html", shown)


async def sources(asked: PageRequest) -> Page:
    """List the sources, and with `q` what is found in them."""
    toolbox, query = asked.toolbox, asked.query.get("q", "").strip()
    kind = asked.query.get("kind", "")
    kinds: dict[str, SourceKind] = {each: each for each in SOURCE_KINDS}
    found = await search_sources(toolbox, query, kind=kinds.get(kind), k=HITS) if query else None
    listed = await toolbox.store.sources.list_sources(toolbox.scope)
    return Page("sources.html", {"sources": listed, "kinds": kinds, "q": query, "kind": kind, "found": found})


async def benchmarks(asked: PageRequest) -> Page:
    """List the newest runs."""
    runs = await asked.toolbox.store.benchmarks.list_benchmarks(asked.toolbox.scope, MOST)
    return Page("benchmarks.html", {"runs": runs, "most": MOST})


async def benchmark(asked: PageRequest) -> Page:
    """Show one run. Raises `NotFoundError`."""
    run_id = asked.path["run_id"]
    run = await asked.toolbox.store.benchmarks.get_benchmark(asked.toolbox.scope, run_id)
    if run is None:
        raise NotFoundError(f"no benchmark run {run_id[:60]!r} in project {asked.toolbox.scope.project!r}")
    return Page("benchmark.html", {"run": run, "described": run_metadata(run)})


async def people(asked: PageRequest) -> Page:
    """List the people of the team, and the newest entries of the audit trail."""
    store, tenant = asked.toolbox.store.people, asked.toolbox.scope.tenant_id
    shown = {"people": await store.list(tenant), "trail": await store.audit(tenant, MOST), "most": MOST}
    return Page("people.html", shown)


async def settings(asked: PageRequest) -> Page:
    """List the settings by section, changed ones marked; with `q`, only those with it in their name or meaning."""
    resolved, query = asked.settings(), asked.query.get("q", "").strip()
    sections: dict[str, list[tuple[str, object, str, str]]] = {}
    for key, value, origin in resolved.rows():
        section, _, name = key.rpartition(".")
        meaning = (SECTIONS[section] if section else Settings).model_fields[name].description or ""
        if query.lower() in f"{key} {meaning}".lower():
            sections.setdefault(section, []).append((key, value, origin, meaning))
    return Page("settings.html", {"sections": sections.items(), "files": resolved.files, "q": query})


JOBS = (Route("/jobs", jobs), Route("/jobs/{job_id}", change_job, "POST", "admin"))
TOOLS = (Route("/tools", tools),)
SOURCES = (Route("/sources", sources),)
BENCHMARKS = (Route("/benchmarks", benchmarks), Route("/benchmarks/{run_id}", benchmark))
PEOPLE = (Route("/people", people, role="admin"),)
SETTINGS = (Route("/settings", settings, role="admin"),)
