"""What the user says, stored as the user's own word: without a task, a verdict or a distiller."""

import re
from typing import NamedTuple

from swarm_memory.schema.base import GLOBAL_PROJECT, MEMORY, RUN, Scope, new_id
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MAX_CONTENT, Kind, MemoryItem, Provenance
from swarm_memory.tools.anchors.footing import anchored
from swarm_memory.tools.consolidate.contradictions import link_contradictions
from swarm_memory.tools.consolidate.upkeep import queue_when_due
from swarm_memory.tools.guard.gate import LOCAL, gated, told_of
from swarm_memory.tools.memories.edit import checked_texts, set_memory_status
from swarm_memory.tools.ports.memories import DayLimit
from swarm_memory.tools.retrieve.embed import prepare_or_say
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.toolbox import Toolbox

_TITLE_CHARS, _LEAST_CHARS = 100, 3
_MARKUP = re.compile(r"^[\s#>*•-]+|^\d{1,3}[.)]\s+")
_LEAD = re.compile(
    r"(?:(?:please|and|also|so)[\s,]+)*(?:(?:do not|don['\u2019]t) forget|remember|note|keep in mind|know)\b"
    r"(?:\s+(?:for (?:next time|later|the future)|from now on))?[\s:,]*(?:that\b[\s:,]*|this\s*:\s*)?(?=\S)",
    re.IGNORECASE,
)
"""How one begins when one asks to be remembered; "remember to …" and "note how …" are advice and stay."""
_ADVICE = re.compile(r"(?:to|how|when|where|what|which|why|of|about)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")


class Remembered(NamedTuple):
    """What became of a text."""

    item: MemoryItem
    is_new: bool
    """False: the user said it before."""
    notices: tuple[str, ...] = ()
    """Why it is held back, trusted less or marked; what was replaced in it; what could not be done for it."""


async def remember(
    toolbox: Toolbox, text: str, kind: Kind = "fact", *, everywhere: bool = False, by_hand: bool = False
) -> Remembered:
    """Store what the user said, in the project or, `everywhere`, in all of the user's projects.

    Secrets are replaced as in any text. `by_hand`, by the user's own command, it is never held back, only marked; what
    an agent passes on is screened. The same words again are known; `by_hand` they are active again. Raises `InputError`
    for a blank text or one over 4,000 characters, `QuotaReached` for an agent's, `StorageError`.
    """
    if len(text) > MAX_CONTENT:
        raise InputError(f"text has {len(text):,} characters: it may have {MAX_CONTENT:,}; say it in parts")
    if len(text.strip()) < _LEAST_CHARS:
        raise InputError("text is empty: give what the user said")
    said = without_request(text.strip())
    given = {"title": title_of(said), "description": "", "content": said, "tags": (kind,), "domain": None}
    texts = checked_texts(given, toolbox.settings)
    scope = Scope(tenant_id=toolbox.scope.tenant_id, project=GLOBAL_PROJECT) if everywhere else toolbox.scope
    if known := await toolbox.store.said(scope, texts["content"]):
        return await _again(toolbox, known[0], by_hand=by_hand)
    source = Provenance(distiller="user", judge=None if by_hand else "agent", screened_by=LOCAL)
    now = toolbox.clock.now()
    item = gated(MemoryItem(id=new_id(MEMORY), scope=scope, confidence=1.0, created_at=now, provenance=source, **texts))
    (item,) = await anchored(toolbox, [item])
    prepared, fault = await prepare_or_say(toolbox, [item])
    limit = None if toolbox.new_per_day is None else DayLimit(toolbox.new_per_day, now)
    await toolbox.store.add_memories(prepared, toolbox.embedder.name, limit)
    await link_contradictions(toolbox, prepared, new_id(RUN))
    await queue_when_due(toolbox, embedder_answers=fault is None)
    redacted = None if texts["content"] == clean(said).strip() else "secrets or personal data in it were replaced"
    return Remembered(item, True, tuple(filter(None, (told_of([item]), redacted, fault))))


def title_of(said: str) -> str:
    """Return the first sentence of what was said, in at most 100 characters."""
    lines = (_MARKUP.sub("", line).strip() for line in said.splitlines())
    line = next((line for line in lines if line), said.strip())
    sentence = _SENTENCE_END.split(line, maxsplit=1)[0].rstrip(" .,;:")
    return _begun(one_line(sentence or line, _TITLE_CHARS))


def without_request(text: str) -> str:
    """Return what was said without the request to remember it before it."""
    asked = _LEAD.match(text)
    if asked is None or _ADVICE.match(text, asked.end()):
        return text
    return _begun(text[asked.end() :])


def _begun(text: str) -> str:
    """Return a sentence that begins with a capital letter; a name such as `pnpm` or iOS stays."""
    return text[:1].upper() + text[1:] if text[:1].islower() and not text[1:2].isupper() and " " in text else text


async def _again(toolbox: Toolbox, known: MemoryItem, *, by_hand: bool) -> Remembered:
    if not by_hand:
        return Remembered(known, False, tuple(filter(None, (told_of([known]),))))
    await set_memory_status(toolbox, [known.id], "active", "said again by the user")
    (item,) = await toolbox.store.get_memories((known.scope,), [known.id])
    return Remembered(item, False)
