"""Screening of new items before they are stored: all by the gate, and those that a model drew by a chat model too.

One question for all items of a run. What the model holds back waits in quarantine as what the gate holds back.
"""

import asyncio
from collections.abc import Sequence

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.guard.gate import gated, held_back
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.guard.screen import Finding
from swarm_memory.tools.model.ask import Answered, ask
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import load_prompt, render
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.toolbox import Toolbox

PROMPT, PURPOSE = "screen_items", "screen"
LOCAL = "rules and classifier"

_ANSWER_TOKENS, _TIMEOUT_S = 600, 30.0
_MAX_REASON_CHARS = 120


class ItemVerdict(Answered):
    """What the model says of one item."""

    number: int
    suspect: bool
    reason: str


class ItemVerdicts(Answered):
    """The model's answer."""

    items: list[ItemVerdict]


async def screened(toolbox: Toolbox, items: Sequence[MemoryItem]) -> tuple[list[MemoryItem], str | None]:
    """Return the items as they may be stored, with who screened them; and what is to be said when the model did not.

    The model is asked about what a model drew and the gate let pass, when `distill.screen_with_model` is on. It can
    hold back and never let through. Where it cannot be asked, or its answer cannot be used, the gate alone decides.
    """
    by_gate = await asyncio.to_thread(lambda: [_by(LOCAL, gated(item)) for item in items])
    asked = [item for item in by_gate if item.status == "active" and item.provenance.distiller == "model"]
    if toolbox.chat is None or not asked or not toolbox.settings.distill.screen_with_model:
        return by_gate, None
    found = await _ask(toolbox.chat, asked)
    if isinstance(found, str):
        return by_gate, f"screened without a model: {found}"
    findings, name = found
    judged = {
        item.id: held_back(_by(f"{LOCAL}, {name}", item), findings.get(number, ()))
        for number, item in enumerate(asked, 1)
    }
    return [judged.get(item.id, item) for item in by_gate], None


async def _ask(model: ChatModel, items: Sequence[MemoryItem]) -> tuple[dict[int, tuple[Finding, ...]], str] | str:
    """Return the findings by the items' numbers and the model that answered, or why there are none."""
    shown = "\n\n".join(f"Item {number}\n{_told(item)}" for number, item in enumerate(items, 1))
    prompt = render(load_prompt(PROMPT), given={}, untrusted={"items": shown})
    try:
        answer, name = await ask(
            model,
            prompt,
            ItemVerdicts,
            purpose=PURPOSE,
            temperature=0.0,
            max_tokens=_ANSWER_TOKENS,
            timeout_s=_TIMEOUT_S,
        )
    except ModelUnavailable as error:
        return one_line(redact(f"the model could not be asked: {error}").text, 300)
    if isinstance(answer, Unparsed):
        return f"the model's answer cannot be used: {answer.reason}"
    said = {each.number: each for each in answer.items}
    if len(said) != len(answer.items) or set(said) != set(range(1, len(items) + 1)):
        return "the model's answer does not name each item once"
    return {number: (_finding(each, name),) for number, each in said.items() if each.suspect}, name


def _finding(said: ItemVerdict, name: str) -> Finding:
    return Finding(f"the model {name}", one_line(redact(said.reason).text, _MAX_REASON_CHARS) or "no reason given")


def _told(item: MemoryItem) -> str:
    return "\n".join(part for part in (item.title, item.description, item.content, ", ".join(item.tags)) if part)


def _by(who: str, item: MemoryItem) -> MemoryItem:
    return item.model_copy(update={"provenance": item.provenance.model_copy(update={"screened_by": who})})
