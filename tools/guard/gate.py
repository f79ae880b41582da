"""The gate before the bank: how much may be added, what waits in quarantine with the reason, what is trusted less."""

import asyncio
from collections.abc import Iterable, Sequence

from swarm_memory.schema.errors import ModelUnavailable, QuotaReached
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.guard.screen import Finding, by_rules, by_rules_of_prompts, by_wording, reason_of
from swarm_memory.tools.model.ask import Answered, Effort, ask, load_prompt, render
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.toolbox import Toolbox

SCREENED = "screened: "
"""Begins the reason of what this gate holds back."""

PROMPT, PURPOSE = "screen_items", "screen"
LOCAL = "rules and classifier"

_TIMEOUT_S = 30.0
_MAX_REASON_CHARS, _MAX_SAID_CHARS = 500, 120
_MAX_NAMED = 5


async def check_quota(toolbox: Toolbox) -> None:
    """Raise `QuotaReached` when nothing more may be added today: before a model is asked for what cannot be kept.

    The store counts once more, exactly, in the transaction that adds.
    """
    limit = toolbox.new_per_day
    if limit is not None and await toolbox.store.added_on(toolbox.scope, toolbox.clock.now()) >= limit:
        raise QuotaReached(limit)


def gated(item: MemoryItem) -> MemoryItem:
    """Return an active item as it may be stored, any other as it is.

    What a rule finds is quarantined with the reason; what the classifier alone finds is noted as suspect, which lowers
    its trust (`Provenance.priority`). What the user's own command stores is only marked, whoever finds it; what a
    prompt of the user's says is not doubted for its wording, and held back by the rules for prompts alone.
    """
    if item.status != "active":
        return item
    if item.provenance.is_users_word and item.provenance.heard_in == "prompt":
        return held_back(item, by_rules_of_prompts(_text(item)))
    return _weighed(item, by_rules(_text(item)))


def gated_edit(former: MemoryItem, edited: MemoryItem) -> MemoryItem:
    """Return an edited item, held back when the edit brought in what the former text, as it stood, did not have."""
    if edited.status != "active":
        return edited
    before = {finding.rule for finding in by_rules(_text(former))}
    return _weighed(edited, tuple(each for each in by_rules(_text(edited)) if each.rule not in before))


def _weighed(item: MemoryItem, findings: tuple[Finding, ...]) -> MemoryItem:
    source = item.provenance
    by_own_command = source.is_users_word and source.judge is None
    if findings and not by_own_command:
        return held_back(item, findings)
    found = findings or by_wording(_text(item))
    suspect = clean(reason_of(found), _MAX_REASON_CHARS) if found else None
    return item.model_copy(update={"provenance": source.model_copy(update={"suspect": suspect})})


def marked(item: MemoryItem, said: str | None) -> MemoryItem:
    """Return an item that others say is suspect with their reason, where the gate found none."""
    why = item.provenance.suspect or clean(redact(said or "").text, _MAX_REASON_CHARS) or None
    return item.model_copy(update={"provenance": item.provenance.model_copy(update={"suspect": why})})


def _text(item: MemoryItem) -> str:
    """Return an item as it is screened, as a whole: title, description, content, domain and tags together."""
    texts = (item.title, item.description, item.content, item.domain or "", " ".join(item.tags))
    return "\n".join(text for text in texts if text)


def held_back(item: MemoryItem, findings: tuple[Finding, ...]) -> MemoryItem:
    """Return the item in quarantine for these findings; unchanged without any."""
    if not findings:
        return item
    reason = clean(SCREENED + reason_of(findings), _MAX_REASON_CHARS)
    return item.model_copy(update={"status": "quarantined", "status_reason": reason})


def notice_of(items: Iterable[MemoryItem]) -> str | None:
    """Return in one line what is held back, trusted less or marked, why, and how the user takes that back.

    Without the words that were found, since an agent reads it. None where there is nothing to say.
    """
    every = list(items)
    held = [each for each in every if each.status == "quarantined" and each.provenance.heard_in != "result"]
    suspect = [each for each in every if each.status != "quarantined" and each.provenance.suspect is not None]
    less = [each for each in suspect if each.provenance.priority < 0]
    marked = [each for each in suspect if each.provenance.priority >= 0]
    restore = "swarm-memory memories restore"
    notices: list[str] = []
    for found, how, fix in (
        (held, "in quarantine and not retrieved", f"the user reads and releases it: {restore}"),
        (less, "stored with less trust", f"the user vouches for it: {restore}"),
        (marked, "stored as you said it, and marked", "to see why: swarm-memory memories get"),
    ):
        findings = (each for item in found for each in by_rules(_text(item)) or by_wording(_text(item)))
        rules = ", ".join(dict.fromkeys(finding.rule for finding in findings)) or "by a model"
        ids = " ".join(item.id for item in found[:_MAX_NAMED])
        more = f" … ({len(found) - _MAX_NAMED} more)" if len(found) > _MAX_NAMED else ""
        notices += [f"{len(found)} {how} ({rules}); {fix} {ids}{more}"] if found else []
    return "; ".join(notices) or None


def suspects(items: Sequence[MemoryItem]) -> list[str]:
    """Return the ids of those that only a person may restore."""
    return [
        item.id
        for item in items
        if (item.status_reason or "").startswith(SCREENED)
        or (item.status == "quarantined" and item.provenance.heard_in == "result")
        or by_rules(_text(item))
    ]


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

    The model is asked about what a model distilled and the gate let pass, when `distill.screen_with_model` is on. It
    can hold back and never let through. Where it cannot be asked, or its answer is of no use, the gate alone decides.
    """
    by_gate = await asyncio.to_thread(lambda: [_by(LOCAL, gated(item)) for item in items])
    asked = [item for item in by_gate if item.status == "active" and item.provenance.distiller == "model"]
    if toolbox.chat is None or not asked or not toolbox.settings.distill.screen_with_model:
        return by_gate, None
    shown = "\n\n".join(f"Item {number}\n{_text(item)}" for number, item in enumerate(asked, 1))
    prompt, effort = render(load_prompt(PROMPT), given={}, untrusted={"items": shown}), Effort(timeout_s=_TIMEOUT_S)
    try:
        answer, name = await ask(toolbox.chat, prompt, ItemVerdicts, purpose=PURPOSE, effort=effort)
    except ModelUnavailable as error:
        why = one_line(redact(f"the model could not be asked: {error}").text, 300)
        return by_gate, f"screened without a model: {why}"
    if isinstance(answer, Unparsed):
        return by_gate, f"screened without a model: the model's answer cannot be used: {answer.reason}"
    said = {each.number: each for each in answer.items}
    if len(said) != len(answer.items) or set(said) != set(range(1, len(asked) + 1)):
        return by_gate, "screened without a model: the model's answer does not name each item once"
    judged: dict[str, MemoryItem] = {}
    for number, item in enumerate(asked, 1):
        why = one_line(redact(said[number].reason).text, _MAX_SAID_CHARS) or "no reason given"
        found = (Finding(f"the model {name}", why),) if said[number].suspect else ()
        judged[item.id] = held_back(_by(f"{LOCAL}, {name}", item), found)
    return [judged.get(item.id, item) for item in by_gate], None


def _by(who: str, item: MemoryItem) -> MemoryItem:
    return item.model_copy(update={"provenance": item.provenance.model_copy(update={"screened_by": who})})
