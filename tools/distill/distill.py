"""Distilling memory items from a judged trajectory: by a model where there is one, else by extraction."""

import asyncio
from collections.abc import Sequence

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.schema.memory import Distillation, MemoryItem
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.distill.corrections import USERS_WORD, corrections
from swarm_memory.tools.distill.fixes import fix_drafts, guardrails, project_checks
from swarm_memory.tools.distill.model import distill_by_model
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.reading import Reading, read

_MAX_REASON_CHARS = 400


async def distill(toolbox: Toolbox, given: Trajectory | Reading, verdict: Verdict) -> Distillation:
    """Return what a judged trajectory teaches, by the toolbox's chat model or, without one, by extraction."""
    reading = read(given)
    known = await known_fixes(toolbox, reading)
    if toolbox.chat is not None:
        return await distill_with_fallback(toolbox.chat, reading, verdict, toolbox.settings, toolbox.root, known)
    return await asyncio.to_thread(distill_by_extraction, reading, verdict, toolbox.settings, known)


async def known_fixes(toolbox: Toolbox, reading: Reading) -> tuple[tuple[str, MemoryItem], ...]:
    """Return the bank's fixes of a trajectory's errors, including candidates, each with the error's signature."""
    signed = await asyncio.to_thread(lambda: {call.signature.digest: 0 for call in reading.calls if call.signature})
    if not (signatures := list(signed)):
        return ()
    known = await toolbox.store.known_fixes(toolbox.scope, signatures)
    pairs = [(way.signature, way.memory_id) for way in known]
    pairs += await toolbox.store.candidates(toolbox.scope, signatures)
    items = {item.id: item for item in await toolbox.store.get_memories(toolbox.readable, [pair[1] for pair in pairs])}
    return tuple((signature, items[memory_id]) for signature, memory_id in pairs if memory_id in items)


def distill_by_extraction(
    given: Trajectory | Reading, verdict: Verdict, settings: Settings, known: Sequence[tuple[str, MemoryItem]] = ()
) -> Distillation:
    """Distill at most `settings.distill.max_items_per_traj` items without any model, whatever the verdict is.

    `known` are the bank's fixes of its errors, each with the error's signature. When nothing is worth keeping, the
    drafts are empty and `reason` says why.
    """
    reading = read(given)
    is_broken = reading.trajectory.broken_off is not None and verdict.label == "Undecided"
    why = "nothing to learn from: no error seen to end in a new way, no correction and no check of the project"
    if is_broken:
        why = "the host's connection to its model cut the task short: it teaches nothing until it is continued"
    found = [] if is_broken else [*corrections(reading), *fix_drafts(reading, known), *project_checks(reading)]
    found += guardrails(reading) if verdict.label == "Failure" else ()
    drafts = tuple({draft.title: draft for draft in reversed(found)}.values())[::-1]
    return Distillation(
        drafts=drafts[: settings.distill.max_items_per_traj], distiller="extractive", reason=None if drafts else why
    )


async def distill_with_fallback(
    model: ChatModel,
    given: Trajectory | Reading,
    verdict: Verdict,
    settings: Settings,
    root: str = "",
    known: Sequence[tuple[str, MemoryItem]] = (),
) -> Distillation:
    """Return what the model distills, or what extraction does when the model gives no items that may be kept.

    That is when it is unavailable, its answer cannot be used, all its items were refused, or the verdict is Undecided.
    A model that answers that nothing is worth keeping is believed. `reason` says which it was.
    """
    if verdict.label == "Undecided":
        return await asyncio.to_thread(distill_by_extraction, given, verdict, settings, known)
    try:
        found, is_final = await distill_by_model(model, read(given).trajectory, verdict, settings, root)
    except ModelUnavailable as error:
        why = one_line(redact(f"the model could not be asked: {error}").text, _MAX_REASON_CHARS)
    else:
        if is_final:  # the user's rules are kept whatever the model returns
            said = tuple(draft for draft in corrections(read(given)) if USERS_WORD in draft.tags)
            return found.model_copy(update={"drafts": (*said, *found.drafts)})
        why = str(found.reason)
    extracted = await asyncio.to_thread(distill_by_extraction, given, verdict, settings, known)
    reasons = filter(None, (f"distilled without a model: {why}", extracted.reason))
    return extracted.model_copy(update={"reason": "; ".join(reasons)})
