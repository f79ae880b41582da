"""The gate before the bank: how much may be added, what is quarantined and for what reason, what is trusted less."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from swarm_memory.schema.errors import InputError, ModelUnavailable, QuotaReached
from swarm_memory.schema.memory import MemoryDraft, MemoryItem, Provenance
from swarm_memory.schema.settings import Settings
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.guard.screen import Finding, by_rules, by_wording, reason_of, screen_prompt
from swarm_memory.tools.guard.wording import COPIED, NOTHING_READ, AgentContext, copies_results
from swarm_memory.tools.model.ask import AskOptions, BaseAnswer, ask, load_prompt, render
from swarm_memory.tools.model.parse import ParseFailure
from swarm_memory.tools.text.cleaning import clean, faults, one_line
from swarm_memory.tools.text.intent import blank_quotations
from swarm_memory.tools.toolbox import Toolbox

SCREENED = "screened: "
"""The beginning of the `status_reason` of what this gate holds back."""

WORDS = {"title", "description", "content", "tags", "domain"}
"""The fields of a memory that hold its words."""

PROMPT, PURPOSE = "screen_items", "screen"
LOCAL = "rules and classifier"

_TIMEOUT_S = 30.0
_MAX_REASON_CHARS, _MAX_SAID_CHARS = 500, 120
_MAX_NAMED = 5


async def check_daily_quota(toolbox: Toolbox) -> None:
    """Raise `QuotaReached` when nothing more may be added today, before a model is asked for what could not be kept.

    The store counts again, exactly, in the transaction that adds.
    """
    limit = toolbox.new_per_day
    if limit is not None and await toolbox.store.added_on(toolbox.scope, toolbox.clock.now()) >= limit:
        raise QuotaReached(limit)


def admit_memory(
    said: Mapping[str, Any],
    source: Provenance,
    settings: Settings,
    read: AgentContext = NOTHING_READ,
    former: MemoryItem | None = None,
) -> MemoryItem:
    """Return a text as the memory that may be stored: the one way into the bank, whoever wrote it.

    `said` has the fields of a memory, `source` who says it and where it was heard, `read` what the writer had read.
    Texts are cleaned and redacted. An active item is quarantined, with the reason, where a rule finds something, where
    it copies tool results that no prompt has, or where it came as the user's word and only a result says it. What the
    classifier alone finds is noted as suspect, which lowers trust (`Provenance.priority`). In an edit, rules that the
    `former` item already broke do not count. The user's own words are held to the rules for prompts: a prompt is not
    classified, and a command is never quarantined, only marked. Raises `InputError` for a text of a wrong length.
    """
    item = MemoryItem.model_validate({**said, **checked_texts(said, settings), "provenance": source})
    if item.status != "active":
        return item
    known = set[str]() if former is None else {finding.rule for finding in _found(former, read)}
    findings = tuple(each for each in _found(item, read) if each.rule not in known)
    if (findings and not source.is_own_command) or _is_prompts(source):
        return held_back(item, findings)
    found = findings or by_wording(_text(item))
    suspect = clean(reason_of(found), _MAX_REASON_CHARS) if found else None
    return item.model_copy(update={"provenance": source.model_copy(update={"suspect": suspect})})


def checked_texts(texts: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return title, description, content, tags and domain, cleaned, redacted and checked for their length.

    Raises `InputError` that names the field and what is allowed.
    """
    given: list[str] = [texts.get(name) or "" for name in ("title", "description", "content", "domain")]
    given += texts["tags"]
    kept = [clean(redact(clean(text), pii=settings.distill.redact_pii).text) for text in given]
    tags = tuple(dict.fromkeys(filter(None, (tag.strip() for tag in kept[4:]))))
    values = dict(zip(("title", "description", "content"), kept, strict=False))
    try:
        draft = MemoryDraft.model_validate({**values, "domain": kept[3].strip() or None, "tags": tags})
    except ValidationError as error:
        raise InputError(faults(error)) from error
    return draft.model_dump(include=WORDS)


def _is_prompts(source: Provenance) -> bool:
    return source.is_users_word and source.heard_in == "prompt"


def _found(item: MemoryItem, read: AgentContext) -> tuple[Finding, ...]:
    """Return all reasons to hold an item back. Its title and quotations may name commands and errors as read."""
    source = item.provenance
    if _is_prompts(source) or source.is_own_command:
        return screen_prompt(_text(item))
    found = by_rules(_text(item))
    if source.heard_in == "result":
        found += (Finding("brought as the user's word", "its words are in a tool's result and in no prompt"),)
    if not source.is_users_word and copies_results(blank_quotations(f"{item.description}\n{item.content}"), read):
        found += (Finding(COPIED, ""),)
    return found


def mark_suspect(item: MemoryItem, said: str | None) -> MemoryItem:
    """Return an item marked as suspect for the reason that others gave, unless the gate found one itself."""
    why = item.provenance.suspect or clean(redact(said or "").text, _MAX_REASON_CHARS) or None
    return item.model_copy(update={"provenance": item.provenance.model_copy(update={"suspect": why})})


def _text(item: MemoryItem) -> str:
    """Return the text of an item as it is screened: title, description, content, domain and tags together."""
    texts = (item.title, item.description, item.content, item.domain or "", " ".join(item.tags))
    return "\n".join(text for text in texts if text)


def held_back(item: MemoryItem, findings: tuple[Finding, ...]) -> MemoryItem:
    """Return the item, quarantined for these findings; unchanged if there are none."""
    if not findings:
        return item
    reason = clean(SCREENED + reason_of(findings), _MAX_REASON_CHARS)
    return item.model_copy(update={"status": "quarantined", "status_reason": reason})


def notice_of(items: Iterable[MemoryItem]) -> str | None:
    """Return one line on what is held back, trusted less or marked, why, and how the user can reverse that.

    The words that were found are left out, since an agent reads the line. None where there is nothing to report.
    """
    every = list(items)
    held = [each for each in every if each.status == "quarantined" and each.provenance.heard_in != "result"]
    suspect = [each for each in every if each.status != "quarantined" and each.provenance.suspect is not None]
    less = [each for each in suspect if each.provenance.priority < 0]
    marked = [each for each in suspect if each.provenance.priority >= 0]
    restore = "swarm-memory memories restore"
    notices: list[str] = []
    for found, how, fix in (
        (held, "in quarantine and not retrieved", f"for the user to review and release: {restore}"),
        (less, "stored, but trusted less", f"for the user to vouch for: {restore}"),
        (marked, "stored as you said, and marked", "to see why: swarm-memory show"),
    ):
        named = [each.rule for item in found for each in _found(item, NOTHING_READ) or by_wording(_text(item))]
        named += [COPIED for item in found if COPIED in (item.status_reason or "")]
        rules = ", ".join(dict.fromkeys(named)) or "by a model"
        ids = " ".join(item.id for item in found[:_MAX_NAMED])
        more = f" … ({len(found) - _MAX_NAMED} more)" if len(found) > _MAX_NAMED else ""
        notices += [f"{len(found)} {how} ({rules}); {fix} {ids}{more}"] if found else []
    return "; ".join(notices) or None


def fails_screening(item: MemoryItem) -> bool:
    """Whether screening held an item back, or its rules would because of its words."""
    return (item.status_reason or "").startswith(SCREENED) or bool(by_rules(_text(item)))


class ItemVerdict(BaseAnswer):
    """The model's verdict on one item."""

    number: int
    suspect: bool
    reason: str


class ScreeningAnswer(BaseAnswer):
    """The model's answer."""

    items: list[ItemVerdict]


async def screen_with_model(toolbox: Toolbox, items: Sequence[MemoryItem]) -> tuple[list[MemoryItem], str | None]:
    """Return admitted items after a model screened them, with a note of who did; and a notice if the model did not.

    The model is asked about items that a model distilled and the gate let pass, if `distill.screen_with_model` is on.
    It can hold items back, never release them. If it is unavailable or its answer unusable, the gate alone decides.
    """
    by_gate = list(items)
    asked = [item for item in by_gate if item.status == "active" and item.provenance.distiller == "model"]
    if toolbox.chat is None or not asked or not toolbox.settings.distill.screen_with_model:
        return by_gate, None
    shown = "\n\n".join(f"Item {number}\n{_text(item)}" for number, item in enumerate(asked, 1))
    prompt, effort = render(load_prompt(PROMPT), given={}, untrusted={"items": shown}), AskOptions(timeout_s=_TIMEOUT_S)
    try:
        answer, name = await ask(toolbox.chat, prompt, ScreeningAnswer, purpose=PURPOSE, effort=effort)
    except ModelUnavailable as error:
        why = one_line(redact(f"the model could not be asked: {error}").text, 300)
        return by_gate, f"screened without a model: {why}"
    if isinstance(answer, ParseFailure):
        return by_gate, f"screened without a model: the model's answer cannot be used: {answer.reason}"
    said = {each.number: each for each in answer.items}
    if len(said) != len(answer.items) or set(said) != set(range(1, len(asked) + 1)):
        return by_gate, "screened without a model: the model's answer does not name each item exactly once"
    judged: dict[str, MemoryItem] = {}
    for number, item in enumerate(asked, 1):
        why = one_line(redact(said[number].reason).text, _MAX_SAID_CHARS) or "no reason given"
        found = (Finding(f"the model {name}", why),) if said[number].suspect else ()
        source = item.provenance.model_copy(update={"screened_by": f"{LOCAL}, {name}"})
        judged[item.id] = held_back(item.model_copy(update={"provenance": source}), found)
    return [judged.get(item.id, item) for item in by_gate], None
