"""Distilling by a chat model: what it is shown, and what of its items may be kept."""

import asyncio
import re
from collections.abc import Iterator, Sequence

from swarm_memory.schema.memory import MAX_DESCRIPTION, MAX_TITLE, OPEN_PROBLEM, WAY_OUT, Distillation, MemoryDraft
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.distill.bounds import PLACEHOLDER, WORD, accepted, general, held_to, words_of
from swarm_memory.tools.distill.lessons import GUARDRAIL
from swarm_memory.tools.guard.redact import archivable, redact
from swarm_memory.tools.model.ask import Answered, Effort, ask_about
from swarm_memory.tools.model.parse import Unparsed
from swarm_memory.tools.model.prompt import Rendered, load_prompt, render
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.trajectory.excerpt import Shortened, shorten_trajectory, shown_task
from swarm_memory.tools.trajectory.phrasing import without
from swarm_memory.tools.trajectory.reading import read

MAX_STEPS = 6
"""Of one item: sentences, or instructions in their order."""

MAX_CONTENT_CHARS = 1_200
"""Of one item with all its steps: all items together have 600 tokens in a prompt."""

COPIED_WORDS = 12
"""So many words in a row out of a tool's result are a copy: what a tool wrote never becomes advice by itself."""

PROMPTS = {"Success": "distill_success", "Failure": "distill_failure"}

NOT_WHEN = "Not when: "
"""What the last line of an item begins with, where a model said that it has a limit."""

_MAX_TAGS, _MAX_TAG_CHARS, _MAX_DOMAIN_CHARS = 5, 40, 60
_RESERVED_TAGS = frozenset({GUARDRAIL, WAY_OUT, OPEN_PROBLEM, "user-correction"})
"""Tags by which the rules mark what they themselves saw."""

_MAX_STEP_CHARS, _MAX_REASON_CHARS = 400, 400
_TIMEOUT_S = 60.0
_NUMBER = re.compile(r"\A\s*(?:(?:step\s*)?\d{1,2}\s*[.):]|[-*•])\s+", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)[.!?][\"')]?\s+(?=[A-Z])")
_LIMIT_START = re.compile(
    r"(?i)\A(?:(?:it is )?(?:not|do not|don't)\s+)?(?:to be used |of use |use (?:it |this )?)?(?:when|if|where)\s+"
)
_NO_LIMIT = re.compile(r"(?i)\A\W*(?:none|never|n/?a|nothing|no (?:such )?(?:case|limit)s?|always applies)?\W*\Z")
_ID = re.compile(r"[\w-]+")
_OF_LABEL = re.compile(r"[^\w.+#/ -]+")


class DistilledItem(Answered):
    """One item as a model proposes it."""

    title: str
    description: str
    steps: list[str]
    not_when: str
    domain: str
    tags: list[str]
    evidence: list[str]


class DistilledItems(Answered):
    """What the distillers' prompts ask for."""

    analysis: str
    items: list[DistilledItem]


async def draw_by_model(
    model: ChatModel, trajectory: Trajectory, verdict: Verdict, settings: Settings
) -> tuple[Distillation, bool]:
    """Return what came of asking, and whether the model gave items that may be kept or said that there are none.

    Strategies of a success, guardrails of a failure, at most `settings.distill.max_items_per_traj`, at temperature 0;
    of an undecided trajectory none, and nobody is asked. The items are checked as `check_items` says; `reason` names
    those that were refused, or why there is no answer. Raises `ModelUnavailable`.
    """
    if verdict.label == "Undecided":
        reason = "the verdict is Undecided: no model was asked"
        return Distillation(drafts=(), distiller="model", reason=reason), False
    wanted = settings.distill.max_items_per_traj
    kept = await asyncio.to_thread(archivable, trajectory, settings)
    reasons = _reasons(verdict, settings)

    def write(tokens: int) -> tuple[Rendered, Shortened]:
        shown = shorten_trajectory(kept, tokens)
        untrusted = {"task": shown_task(kept, tokens // 2), "reasons": reasons, "trajectory": shown.text}
        prompt = load_prompt(PROMPTS[verdict.label])
        return render(prompt, given={"max_items": str(wanted)}, untrusted=untrusted), shown

    asked = await ask_about(
        model,
        write,
        DistilledItems,
        purpose="distill",
        effort=Effort(settings.judge.timeout_s or _TIMEOUT_S),
        record_tokens=settings.judge.max_trajectory_tokens,
        task_id=kept.task_id,
    )
    if isinstance(asked.answer, Unparsed):
        drafts, is_final, reason = (), False, f"the model's answer cannot be used: {asked.answer.reason}"
    else:
        given = asked.answer.items
        drafts, refused = await asyncio.to_thread(check_items, given, kept, asked.shown, settings, wanted)
        is_final = bool(drafts) or not given
        reason = "; ".join(refused) or (None if drafts else "the model found nothing that would help another task")
    drawn = Distillation(
        drafts=drafts, distiller="model", reason=reason, prompt_hash=asked.prompt.hash, model=asked.model
    )
    return drawn, is_final


def _reasons(verdict: Verdict, settings: Settings) -> str:
    lines = (redact(clean(reason), pii=settings.distill.redact_pii).text for reason in verdict.reasons)
    return "\n".join(f"- {one_line(line, _MAX_REASON_CHARS)}" for line in lines) or "- none given"


def check_items(
    items: Sequence[DistilledItem], trajectory: Trajectory, shown: Shortened, settings: Settings, max_items: int
) -> tuple[tuple[MemoryDraft, ...], tuple[str, ...]]:
    """Return the items of a model that may be stored, and of each other one why not.

    An item has a title, a description of one sentence (of more the first is kept), 1 to 6 steps, which get numbers
    where they are several, and evidence among the steps that were shown; where it has a limit, its last line says when
    not to use it. What belongs to this task alone (URLs, ids, paths, names, secrets, personal data) is replaced as
    `check_drafts` does; an item that says nothing without it is refused, and so is one that copies 12 words in a row
    out of a tool's result. Domain and tags are made few and short. At most `max_items` are taken.
    """
    return accepted(items, _Bounds(trajectory, shown, settings).check, max_items)


class _Bounds:
    """What an item of one trajectory is held to."""

    def __init__(self, trajectory: Trajectory, shown: Shortened, settings: Settings) -> None:
        self._particulars = read(trajectory).particulars
        self._known = {step.id for step in trajectory.steps}
        self._shown, self._settings = shown.shown, settings
        results = (step.text for step in trajectory.steps if step.kind == "observation" and step.id in shown.shown)
        self._heard = " | ".join(words_of(text) for text in results)

    def check(self, item: DistilledItem) -> MemoryDraft | str:
        """Return the item as it may be stored, or what is wrong with it."""
        title, description = self._plain(item.title), _first_sentence(self._plain(item.description))
        steps = [_NUMBER.sub("", self._plain(step)) for step in item.steps]
        named = {word for text in item.evidence for word in _ID.findall(text)}
        evidence = tuple(step for step in self._shown if step in named)
        if fault := _fault_of_form(title, description, steps):
            return fault
        if not evidence:
            return "its evidence names no step that was shown"
        limit = _limit(self._plain(item.not_when))
        if any(run in self._heard for text in (title, description, *steps, limit) for run in _runs(text)):
            return f"it copies {COPIED_WORDS} words in a row out of a tool's result"
        numbered = [f"{number}. {step}" for number, step in enumerate(steps, 1)] if len(steps) > 1 else steps
        content = "\n".join([*numbered, *([limit] if limit else [])])
        if len(content) > MAX_CONTENT_CHARS:
            return f"its steps have more than {MAX_CONTENT_CHARS:,} characters"
        draft = MemoryDraft(
            title=title,
            description=description,
            content=content,
            domain=".".join(re.findall(r"[^\s./]+", self._label(item.domain, _MAX_DOMAIN_CHARS))) or None,
            tags=tuple(dict.fromkeys(tag for text in item.tags if (tag := self._tag(text))))[:_MAX_TAGS],
            evidence=evidence,
        )
        checked = held_to(draft, self._known, self._settings)
        if isinstance(checked, str):
            return checked
        lines = checked.content.splitlines()[: len(steps)]
        empty = next((number for number, line in enumerate(lines, 1) if _is_empty(line)), None)
        return f"step {empty} says nothing without what belongs to this task alone" if empty else checked

    def _label(self, text: str, limit: int) -> str:
        """A word or two to filter by; nothing where they hold what belongs to this task alone."""
        plain = self._plain(text)
        if PLACEHOLDER.search(plain) or general(plain, self._settings, len(plain)) != plain:
            return ""
        return one_line(_OF_LABEL.sub(" ", plain.lower()), limit).strip(" .-/…")

    def _tag(self, text: str) -> str:
        tag = self._label(text, _MAX_TAG_CHARS)
        return "" if tag in _RESERVED_TAGS else tag

    def _plain(self, text: str) -> str:
        """One line without the names and ids of the task; the rest is done as with drafts of an agent."""
        return " ".join(without(clean(text), self._particulars).split())


def _fault_of_form(title: str, description: str, steps: Sequence[str]) -> str | None:
    if not 3 <= len(title) <= MAX_TITLE:
        return f"its title must have 3 to {MAX_TITLE} characters"
    if not 3 <= len(description) <= MAX_DESCRIPTION:
        return f"its description must be one sentence of at most {MAX_DESCRIPTION} characters"
    if not 1 <= len(steps) <= MAX_STEPS:
        return f"it has {len(steps)} steps instead of 1 to {MAX_STEPS}"
    wrong = next((number for number, step in enumerate(steps, 1) if not 3 <= len(step) <= _MAX_STEP_CHARS), None)
    return f"step {wrong} must have 3 to {_MAX_STEP_CHARS} characters" if wrong else None


def _is_empty(line: str) -> bool:
    """Whether a line has less than four letters of its own."""
    return sum(map(len, WORD.findall(PLACEHOLDER.sub(" ", _NUMBER.sub("", line))))) < 4


def _limit(text: str) -> str:
    """Return when an item is not to be used, as its last line; nothing where it always may be."""
    if _NO_LIMIT.match(text):
        return ""
    return one_line(f"{NOT_WHEN}{_LIMIT_START.sub('', _first_sentence(text)).rstrip('.')}.", _MAX_STEP_CHARS)


def _first_sentence(text: str) -> str:
    end = _SENTENCE_END.search(text)
    return text[: end.end()].rstrip() if end else text


def _runs(text: str) -> Iterator[str]:
    words = words_of(text).split()
    for start in range(len(words) - COPIED_WORDS + 1):
        yield " ".join(words[start : start + COPIED_WORDS])
