"""The state of the bank and how its answers are made; nothing is measured here."""

from collections import Counter
from datetime import UTC, timedelta
from importlib.metadata import version

from swarm_memory.schema.base import counted
from swarm_memory.schema.status import BankStatistics, BankStatus, StorageHealth
from swarm_memory.tools.consolidate.upkeep import CONSOLIDATE, WHOLE_BANK, describe_retention
from swarm_memory.tools.credit.metrics import WEEK, memory_effect, sentence
from swarm_memory.tools.ports.records import FINISHED
from swarm_memory.tools.promote.promote import not_paying
from swarm_memory.tools.retrieve.embed import BACKLOG, EMBED
from swarm_memory.tools.toolbox import Toolbox


async def memory_status(toolbox: Toolbox) -> BankStatus:
    """Return the state of the bank and how answers are made. Raises `StorageError`."""
    storage = await toolbox.store.health()
    statistics = await toolbox.store.statistics(toolbox.scope, toolbox.embedder.name)
    notices = await out_of_order(toolbox, storage, statistics)
    if held := statistics.memories.get("quarantined", 0):
        shown = "`swarm-memory memories list --status quarantined`"
        notices.append(f"{counted(held, 'memory')} in quarantine, never retrieved: {shown} shows why")
    if waiting := statistics.memories.get("candidate", 0):
        shown = "`swarm-memory memories list --status candidate`"
        notices.append(f"{counted(waiting, 'candidate')}, not retrieved until another session shows the same: {shown}")
    where = toolbox.promoted(None)
    notices += [
        f"{each} in {where[each]} no longer pays ({why}): `swarm-memory promote --demote {each}` removes it"
        for each, why in (await not_paying(toolbox, where)).items()
    ]
    chat = toolbox.settings.chat
    judging = " → ".join(provider.name for provider in chat.judging(toolbox.settings.judge.model))
    learning = "by asking the agent about tasks that are worth it, else by rules" if chat.learn_with == "agent" else ""
    if names := ", ".join(provider.name for provider in chat.learning):
        learning = f"with {names} from tasks that are worth it, else by rules"
    counts, logged = await toolbox.store.tool_memory.counts(toolbox.scope), "no calls logged"
    if counts.tools:
        logged = f"{counted(counts.tools, 'tool')}, {counted(counts.calls, 'call')} ({counts.kept:,} kept,"
        logged += f" {counts.not_evaluated:,} not evaluated), {counts.summarized:,} summarized"
    passages: Counter[str] = Counter()
    for source in await toolbox.store.sources.list_sources(toolbox.scope):
        passages[source.kind] += source.passages
    kinds = ", ".join(f"{number:,} of kind {kind}" for kind, number in sorted(passages.items()))
    return BankStatus(
        sentence=await sentence(toolbox, statistics),
        version=version("swarm-memory"),
        storage=storage,
        statistics=statistics,
        embedder=toolbox.embedder.name,
        judge="evidence" if toolbox.chat is None else judging or toolbox.chat.name,
        learning=learning or "by rules",
        chat=await chat_usage(toolbox),
        tools=logged,
        sources=f"{counted(passages.total(), 'passage')} ({kinds})" if passages else "none indexed",
        effect=await memory_effect(toolbox),
        consolidation=await _consolidation(toolbox, statistics),
        retention=describe_retention(toolbox),
        notices=tuple(notices),
    )


async def out_of_order(toolbox: Toolbox, storage: StorageHealth, statistics: BankStatistics) -> list[str]:
    """Return a line for each thing that is not as it should be; new memories that wait to be embedded are normal."""
    notices = list(storage.notices)
    job = await toolbox.store.find_job(toolbox.scope, EMBED, BACKLOG) if statistics.not_embedded else None
    if statistics.not_embedded and (job is None or job.ended_at is not None or job.error is not None):
        without = f"{counted(statistics.not_embedded, 'memory')} without a vector from {toolbox.embedder.name}"
        notices.append(f"{without}, found by keywords only; run `swarm-memory bank reembed`")
    notices += toolbox.notices
    days = await toolbox.store.chat_days(toolbox.clock.now() - WEEK)
    if unusable := sum(each.unusable for each in days):
        answers = counted(sum(each.answers for each in days), "answer")
        notices.append(f"model: {unusable:,} of {answers} in the last week could not be used; rules stood in")
    judge = toolbox.settings.judge.model
    if judge is not None and not toolbox.settings.chat.named(judge):
        notices.append(f"judge.model is {judge!r}, which is not one of chat.providers: it is treated as not set")
    return notices


async def _consolidation(toolbox: Toolbox, statistics: BankStatistics) -> str:
    every = toolbox.settings.consolidate.run_every_new_items
    parts = [f"{counted(statistics.new_since_consolidation, 'new memory')}; runs by itself at {every}"]
    ended = await toolbox.store.events_of_kind(toolbox.scope, FINISHED, 1)
    parts += [f"last run {event.at:%Y-%m-%d %H:%M} UTC" for event in ended]
    job = await toolbox.store.find_job(toolbox.scope, CONSOLIDATE, WHOLE_BANK)
    if job is not None and job.status != "completed":
        parts.append(f"{job.id} {job.status}" + (f": {job.error}" if job.error else ""))
    return "; ".join(parts)


async def chat_usage(toolbox: Toolbox) -> str | None:
    """Return one line on what chat models cost; None if none may be asked and none was asked within the week."""
    midnight = toolbox.clock.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    named = toolbox.settings.chat.learning if toolbox.chat is None else ()
    days = await toolbox.store.chat_days(midnight - timedelta(days=6))
    if toolbox.chat is None and not (named or days):
        return None
    models = toolbox.chat.name.replace(" → ", ", ") if toolbox.chat else ", ".join(each.name for each in named)
    spent, budget = await toolbox.store.chat_spending(midnight), toolbox.settings.chat.daily_token_budget
    limit = "no limit" if budget is None else f"{budget:,}"
    today = f"{spent.tokens:,} tokens of {limit} in {counted(spent.calls, 'call')}{_usd(spent.cost_usd)}"
    by_day = "; ".join(f"{each.day} {each.tokens:,} tokens{_usd(each.cost_usd)}" for each in days) or "nothing"
    return f"{models or 'none'}; today {today}; by day: {by_day}"


def _usd(cost: float | None) -> str:
    """Return a cost as it is written after a number of tokens; empty if it is not known."""
    return "" if cost is None else f", {cost:.4f} USD"
