"""The gate before the bank: what screening finds suspect is stored in quarantine with the reason, never dropped.

What to look for is not here (`screening`), nor how far a memory that passed is trusted (`trust`).
"""

from collections.abc import Iterable, Sequence

from swarm_memory.schema.memory import MemoryDraft, MemoryItem
from swarm_memory.tools.guard.screen import Finding, reason_of, screen
from swarm_memory.tools.text.cleaning import clean

SCREENED = "screened: "
"""Begins the reason of what this gate holds back."""

_MAX_REASON_CHARS = 500


def screen_item(item: MemoryItem | MemoryDraft) -> tuple[Finding, ...]:
    """Return what is suspect in an item as a whole: title, description, content, domain and tags together."""
    texts = (item.title, item.description, item.content, item.domain or "", " ".join(item.tags))
    return screen("\n".join(text for text in texts if text))


def gated(item: MemoryItem) -> MemoryItem:
    """Return the item as it may be stored: quarantined with the reason when it would be active and is suspect."""
    return item if item.status != "active" else held_back(item, screen_item(item))


def held_back(item: MemoryItem, findings: tuple[Finding, ...]) -> MemoryItem:
    """Return the item in quarantine for these findings; unchanged without any."""
    if not findings:
        return item
    reason = clean(SCREENED + reason_of(findings), _MAX_REASON_CHARS)
    return item.model_copy(update={"status": "quarantined", "status_reason": reason})


def gated_edit(former: MemoryItem, edited: MemoryItem) -> MemoryItem:
    """Return an edited item, held back when the edit brought in what the former text, as it stood, did not have."""
    if edited.status != "active":
        return edited
    before = {finding.rule for finding in screen_item(former)}
    return held_back(edited, tuple(each for each in screen_item(edited) if each.rule not in before))


def told_of(items: Iterable[MemoryItem]) -> str | None:
    """Return one line that says how many items wait in quarantine and why, without their words; None when none does."""
    held = [item for item in items if item.status == "quarantined"]
    if not held:
        return None
    rules = dict.fromkeys(finding.rule for item in held for finding in screen_item(item))
    why = ", ".join(rules) or "the model that screened them"
    return f"{len(held)} wait in quarantine ({why}): see `swarm-memory memories list --status quarantined`"


def suspects(items: Sequence[MemoryItem]) -> list[str]:
    """Return the ids of those that only a person may restore."""
    return [item.id for item in items if screen_item(item) or (item.status_reason or "").startswith(SCREENED)]
