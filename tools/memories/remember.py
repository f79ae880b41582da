"""What the user says, stored as the user's own word; what only an agent says that he said, as the agent's note."""

import re
from typing import NamedTuple

from swarm_memory.schema.base import GLOBAL_PROJECT, MEMORY, RUN, Scope, new_id
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MAX_CONTENT, Kind, MemoryItem, Provenance
from swarm_memory.tools.anchors.staleness import anchored
from swarm_memory.tools.consolidate.contradictions import link_contradictions
from swarm_memory.tools.consolidate.upkeep import queue_when_due
from swarm_memory.tools.guard.gate import LOCAL, gated, told_of
from swarm_memory.tools.memories.decide import confirm
from swarm_memory.tools.memories.edit import checked_texts, set_memory_status
from swarm_memory.tools.memories.heard import UNSEEN, Heard
from swarm_memory.tools.ports.memories import DayLimit
from swarm_memory.tools.retrieve.embed import prepare_or_say
from swarm_memory.tools.text.cleaning import clean, harmless, one_line
from swarm_memory.tools.text.requests import begun, without_request
from swarm_memory.tools.toolbox import Toolbox

_TITLE_CHARS, _LEAST_CHARS = 100, 3
_MARKUP = re.compile(r"^[\s#>*•-]+|^\d{1,3}[.)]\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")

_CONFIRM = "it becomes the user's word when the user says so: swarm-memory memories edit --confirm"
_WHY = {
    "result": "its words stand in the result of {tool}, and in no prompt of the user's",
    "nowhere": "its words stand in no prompt of this session",
    "unseen": "no prompt of the user's can be seen from here: no hooks of this session spoke to this server",
}
NOTE_CONFIDENCE = 0.6
"""Of an agent's note: as of what nobody judged."""


class Remembered(NamedTuple):
    """What became of a text."""

    item: MemoryItem
    is_new: bool
    """False: the user said it before."""
    notices: tuple[str, ...] = ()
    """Why it is held back, trusted less or marked; what was replaced in it; what could not be done for it."""


async def remember(
    toolbox: Toolbox,
    text: str,
    kind: Kind = "fact",
    *,
    everywhere: bool = False,
    by_hand: bool = False,
    heard: Heard = UNSEEN,
) -> Remembered:
    """Store what the user said, in the project or, `everywhere`, in all of the user's projects.

    Secrets are replaced as in any text. `by_hand`, by the user's own command, it is never held back, only marked. What
    an agent passes on is screened, and is the user's word where it was `heard` in a prompt. Else it is the agent's
    note, of the project alone; in quarantine where it stands in a tool's result. The same words again are known;
    `by_hand` they are active again, and the user's. Raises `InputError` for a blank text or one over 4,000 characters,
    `QuotaReached` for an agent's, `StorageError`.
    """
    if len(text) > MAX_CONTENT:
        raise InputError(f"text has {len(text):,} characters: it may have {MAX_CONTENT:,}; say it in parts")
    said = without_request(text.strip())
    if len(clean(said).strip()) < _LEAST_CHARS:
        raise InputError("text is empty: give what the user said")
    given = {"title": title_of(said), "description": "", "content": said, "tags": (kind,), "domain": None}
    texts = checked_texts(given, toolbox.settings)
    is_users = by_hand or heard.where == "prompt"
    everywhere = everywhere and is_users
    scope = Scope(tenant_id=toolbox.scope.tenant_id, project=GLOBAL_PROJECT) if everywhere else toolbox.scope
    if known := await toolbox.store.said(scope, texts["content"]):
        return await again(toolbox, known[0], by_hand=by_hand, is_users=is_users)
    source = _provenance(heard, by_hand=by_hand)
    now, sure = toolbox.clock.now(), 1.0 if is_users else NOTE_CONFIDENCE
    item = MemoryItem(id=new_id(MEMORY), scope=scope, confidence=sure, created_at=now, provenance=source, **texts)
    (item,) = await anchored(toolbox, [held(gated(item), heard)])
    prepared, fault = await prepare_or_say(toolbox, [item])
    limit = None if toolbox.new_per_day is None else DayLimit(toolbox.new_per_day, now)
    await toolbox.store.add_memories(prepared, toolbox.embedder.name, limit)
    await link_contradictions(toolbox, prepared, new_id(RUN))
    await queue_when_due(toolbox, embedder_answers=fault is None)
    redacted = None if texts["content"] == clean(said).strip() else "secrets or personal data in it were replaced"
    return Remembered(item, True, tuple(filter(None, (why_a_note(item, heard.tool), told_of([item]), redacted, fault))))


def why_a_note(item: MemoryItem, tool: str = "") -> str | None:
    """Return why what an agent brought as the user's word is its own note, and how it becomes the user's; else None."""
    where = item.provenance.heard_in
    if where is None or item.provenance.is_users_word:
        return None
    why = _WHY[where].format(tool=f"`{harmless(tool[:60])}`" if tool else "a tool")
    kept = "held back, and not retrieved" if item.status == "quarantined" else "kept as the agent's note"
    return f"{kept}, not as the user's word: {why}; {_CONFIRM} {item.id}"


def _provenance(heard: Heard, *, by_hand: bool) -> Provenance:
    if by_hand:
        return Provenance(distiller="user", screened_by=LOCAL)
    of = "user" if heard.where == "prompt" else "agent"
    is_told = heard.where == "result"
    return Provenance(distiller=of, judge="agent", screened_by=LOCAL, heard_in=heard.where, hearsay=is_told)


def held(item: MemoryItem, heard: Heard | None) -> MemoryItem:
    """Return what only a tool's result says in quarantine: it was to be kept for the user, who did not say it."""
    if heard is None or heard.where != "result" or item.status != "active":
        return item
    why = f"brought as the user's word; {_WHY['result'].format(tool=harmless(heard.tool[:60]) or 'a tool')}"
    return item.model_copy(update={"status": "quarantined", "status_reason": why})


def title_of(said: str) -> str:
    """Return the first sentence of what was said, in at most 100 characters."""
    lines = (_MARKUP.sub("", line).strip() for line in said.splitlines())
    line = next((line for line in lines if line), said.strip())
    sentence = _SENTENCE_END.split(line, maxsplit=1)[0].rstrip(" .,;:")
    return begun(one_line(sentence or line, _TITLE_CHARS))


async def again(toolbox: Toolbox, known: MemoryItem, *, by_hand: bool, is_users: bool) -> Remembered:
    """Return what becomes of a text that the bank has: `by_hand` it is active again."""
    if is_users and not known.provenance.is_users_word:
        if not by_hand and known.status != "active":
            return Remembered(known, False, tuple(filter(None, (told_of([known]),))))
        (known,) = (await confirm(toolbox, known.id, by_hand=by_hand)).items
        return Remembered(known, False)
    if not by_hand:
        return Remembered(known, False, tuple(filter(None, (why_a_note(known), told_of([known])))))
    await set_memory_status(toolbox, [known.id], "active", "said again by the user")
    (item,) = await toolbox.store.get_memories((known.scope,), [known.id])
    return Remembered(item, False)
