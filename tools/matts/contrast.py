"""Self-contrast: the lessons of several attempts at one task together, found by a model or from their calls alone.

From the calls: what got any attempt past an error, and what failures ran into and no success did. What counts is in how
many attempts something occurs, not how often; in only one, it must have been seen to work. Such a fix holds, whichever
attempt found it. What one did in vain helped no other, and comparing attempts shows which actions were bystanders.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.schema.memory import CANDIDATE, FIX, Distiller, Outcome
from swarm_memory.schema.rollout import ScalingMode
from swarm_memory.schema.settings import Settings
from swarm_memory.tools.distill.bounds import check_drafts
from swarm_memory.tools.distill.corrections import corrections
from swarm_memory.tools.distill.distill import distill_by_extraction
from swarm_memory.tools.distill.drafts import MAX_ACTION, draft_of, guardrail_draft, is_repeatable, repair_draft
from swarm_memory.tools.distill.fixes import is_of_one_run, is_seen
from swarm_memory.tools.distill.model import DistilledItem, check_items
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.matts.rollouts import Attempt, Lesson, combined_trajectory
from swarm_memory.tools.model.ask import AskOptions, BaseAnswer, Rendered, ask_about, load_prompt, render
from swarm_memory.tools.model.parse import ParseFailure
from swarm_memory.tools.ports.models import ChatModel
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.errors import Repair, may_have_effect, same_intent, shape
from swarm_memory.tools.trajectory.excerpt import Shortened, shorten_trajectory, shown_task
from swarm_memory.tools.trajectory.failures import classify, error_key
from swarm_memory.tools.trajectory.phrasing import show_call
from swarm_memory.tools.trajectory.reading import Reading, read

_VERDICTS = frozenset({"assertion", "error"})
"""A check that fails in one of these ways says that the work is wrong: that is the failure itself, not its cause."""

_MIN_SEEN, _MAX_EVIDENCE = 2, 20


ErrorKey = tuple[str, tuple[str, str]]
"""What failed, and with which error: each is a lesson of its own."""


@dataclass(frozen=True, slots=True)
class AnalyzedAttempt:
    """One attempt with its calls, the errors it met and how it got past them."""

    attempt: Attempt
    reading: Reading
    failed: dict[ErrorKey, list[Call]] = field(default_factory=dict[ErrorKey, list[Call]])
    repaired: dict[ErrorKey, list[Repair]] = field(default_factory=dict[ErrorKey, list[Repair]])
    vain: dict[ErrorKey, dict[str, Call]] = field(default_factory=dict[ErrorKey, dict[str, Call]])
    """What was done after an error, by shape, where the next such call ended with the same error."""

    @property
    def label(self) -> str:
        return self.attempt.verdict.label


class SharedFix(NamedTuple):
    """A way past an error, as a lesson."""

    mark: ErrorKey
    lesson: Lesson
    is_seen: bool
    """Whether an attempt was seen to get past the error by it."""
    failures: int
    """How many failed attempts it would have helped: those that met the error and had not got past it in the end."""
    went: int
    """How many attempts went this way."""


def analyze_attempt(attempt: Attempt) -> AnalyzedAttempt:
    """Return an attempt with the errors in it."""
    looked = AnalyzedAttempt(attempt, read(attempt.trajectory))
    for call in looked.reading.calls:
        if call.failed and not looked.reading.is_own_fault(call):
            looked.failed.setdefault((call.name, error_key(call.error)), []).append(call)
    for repair in looked.reading.repairs:
        looked.repaired.setdefault((repair.failed.name, error_key(repair.failed.error)), []).append(repair)
    for mark, failed in looked.failed.items():
        vain = looked.vain[mark] = {}
        for one, following in itertools.pairwise(failed):
            between = [call for call in looked.reading.calls if one.end < call.position < following.position]
            if not any(not call.failed and same_intent(one, call) for call in between):
                vain.update({shape(call): call for call in between if may_have_effect(call)})
    return looked


def shared_fixes(every: Sequence[AnalyzedAttempt]) -> list[SharedFix]:
    """Return one way past each error that any attempt got past; the ways that most failures lacked come first."""
    marks = dict.fromkeys(mark for each in every for mark in each.failed)
    found = [_fix(mark, every) for mark in marks if any(mark in each.repaired for each in every)]
    return sorted(found, key=lambda each: (each.failures, each.went), reverse=True)


def _fix(mark: ErrorKey, every: Sequence[AnalyzedAttempt]) -> SharedFix:
    """Return the way that most attempts went, as shown by the one (a success, if any) that did the least besides."""
    repairs = [(each, repair) for each in every for repair in each.repaired.get(mark, ())]
    vain = {key: call for each in every for key, call in each.vain.get(mark, {}).items()}
    acted = {(each.attempt.number, shape(call)) for each, repair in repairs for call in repair.actions}
    done = Counter(key for _, key in acted)
    helpful = {key for key, count in done.items() if count == max(done.values())} - vain.keys()

    def pruned(repair: Repair) -> Repair:
        actions = tuple(call for call in repair.actions if shape(call) in helpful)
        return replace(repair, actions=actions or repair.actions)

    def rank(pair: tuple[AnalyzedAttempt, Repair]) -> tuple[int, ...]:
        looked, repair = pair
        went = len(_went(repair, repairs))
        return -went, looked.label != "Success", len(repair.actions), -len(repair.attempts), looked.attempt.number

    owner, repair = min(((each, pruned(repair)) for each, repair in repairs), key=rank)
    way = {shape(call) for call in repair.actions}
    tried = {shape(call): call for call in repair.vain} | vain
    repair = replace(repair, vain=tuple(call for key, call in tried.items() if key not in way))
    went = _went(repair, repairs)
    failures = 0
    for each in every:  # it counts if it met the error again after it last got past it, or never got past it
        past = max((done.success.position for done in each.repaired.get(mark, ())), default=-1)
        failures += each.label == "Failure" and mark in each.failed and each.failed[mark][-1].position > past
    # The steps of all attempts that confirm the fix are its evidence.
    checked = [f"Checked and corrected: {note}" for note in owner.attempt.notes[:2]]
    draft = repair_draft(repair, owner.reading.particulars, checked, tags=(FIX,))
    others = [each.repaired[mark][0] for each in went if each is not owner]
    steps = [step for other in others for step in (*other.failed.ids, *other.success.ids)]
    evidence = tuple(dict.fromkeys([*draft.evidence, *steps]))[:_MAX_EVIDENCE]
    tags = tuple(dict.fromkeys(("contrast", *draft.tags)))[:8]
    lesson = Lesson(draft.model_copy(update={"evidence": evidence, "tags": tags}), "Success", owner.attempt)
    return SharedFix(mark, lesson, is_seen(repair), failures, len(went))


def _went(repair: Repair, repairs: Sequence[tuple[AnalyzedAttempt, Repair]]) -> list[AnalyzedAttempt]:
    """Return the attempts that went a way: they did all its actions or, where it has none, did nothing either."""
    if shape(repair.failed) == shape(repair.success) and not repair.actions:
        return []  # the error went away by itself, as far as was seen
    way = {shape(call) for call in repair.actions}
    done = ((each, {shape(call) for call in other.actions}) for each, other in repairs)
    went = {each.attempt.number: each for each, actions in done if way <= actions and bool(way) == bool(actions)}
    return list(went.values())


def pitfalls(every: Sequence[AnalyzedAttempt], fixed: Collection[ErrorKey]) -> Iterator[Lesson]:
    """Yield the errors that at least half of the failures, at least two, ran into again and again, and no success met.

    Each is a guardrail, with all that any attempt tried against it in vain.
    """
    met = [each for each in every if each.label == "Success"]
    missed = [each for each in every if each.label == "Failure"]
    counts = Counter(mark for each in missed for mark, calls in each.failed.items() if len(calls) > 1)
    for mark, count in counts.most_common():
        owner = max((each for each in missed if mark in each.failed), key=lambda each: len(each.failed[mark]))
        call = owner.failed[mark][-1]
        is_usual = count >= _MIN_SEEN and 2 * count >= len(missed) and not any(mark in each.failed for each in met)
        is_verdict = call.check is not None and classify(call.error).kind in _VERDICTS
        if mark in fixed or not is_usual or is_verdict:
            continue
        vain = [(done, each.reading.particulars) for each in every for done in each.vain.get(mark, {}).values()]
        texts = (show_call(done, own, 80) for done, own in vain)
        none = f", and in 0 of {len(met)} that did" if met else ""
        said = f"This happened in {count} of {len(missed)} attempts that did not succeed{none}."
        calls = [each.failed[mark][-1] for each in missed if each is not owner and mark in each.failed]
        draft = guardrail_draft([*calls, call], texts, owner.reading.particulars, [said], tags=("contrast",))
        if draft is not None:
            yield Lesson(draft, "Failure", owner.attempt)


def difference(every: Sequence[AnalyzedAttempt]) -> Iterator[Lesson]:
    """Yield the one action that sets a success apart from a failure, a candidate: of several any may be what did it."""
    sides = {each.label: each for each in every}
    if len(every) != 2 or sides.keys() != {"Success", "Failure"}:
        return
    ran = {label: {shape(call): call for call in each.reading.calls} for label, each in sides.items()}
    own, instead = (
        [call for key, call in ran[one].items() if key not in ran[other] and may_have_effect(call)]
        for one, other in (("Success", "Failure"), ("Failure", "Success"))
    )
    if len(own) != 1 or len(instead) > 1 or not all(map(is_repeatable, (*own, *instead))):
        return
    met = sides["Success"]
    title = " instead of ".join(show_call(call, met.reading.particulars, MAX_ACTION) for call in (*own, *instead))
    when = f"the task is like this one: {one_line(met.attempt.trajectory.task, 200)}"
    if is_of_one_run(title):
        return
    said = "The attempt that succeeded did this, and the one that failed did not."
    draft = draft_of(f"Run {title}", when, [f"Run {title}.", said], ("contrast", CANDIDATE), calls=[*own, *instead])
    yield Lesson(draft, "Success", met.attempt)


PROMPT = "self_contrast"

MAX_ITEMS = 3
"""At most this many items come from one run, as from the paper's self-contrast."""

ATTEMPTS_TOKENS = 24_000
"""At most this many tokens of all attempts together are shown to the model."""

_RELATIONS: dict[ScalingMode, str] = {
    "parallel": "independent of each other",
    "sequential": "refinements: each checks and corrects the one before",
}
_TIMEOUT_S = 90.0
_MAX_NOTES, _MAX_NOTE_CHARS = 5, 300


class ContrastedItem(DistilledItem):
    """One item as a model proposes it."""

    kind: Literal["strategy", "guardrail"]


class ContrastAnswer(BaseAnswer):
    """What the prompt asks for."""

    analysis: str
    items: list[ContrastedItem]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class Contrast:
    """The result of a comparison, and how it was made."""

    lessons: tuple[Lesson, ...]
    distiller: Distiller
    notes: tuple[str, ...] = ()
    reason: str | None = None
    """Why there are no lessons, or fewer; why they are not from the model."""
    prompt_hash: str | None = None
    model: str | None = None


async def self_contrast(
    chat: ChatModel | None, attempts: Sequence[Attempt], mode: ScalingMode, settings: Settings
) -> Contrast:
    """Return at most three lessons on what sets success apart from failure, checked as those of an agent are.

    With a model, the model's comparison counts. Where it cannot be asked, or none of its items may be kept, `reason`
    says so and the attempts are compared by their calls, as they are without a model. `attempts` must not be empty.
    """
    why = None
    if chat is not None:
        try:
            found = await _ask_model(chat, attempts, mode, settings)
            if isinstance(found, Contrast):
                return found
            why = found
        except ModelUnavailable as error:
            why = one_line(redact(f"the model could not be asked: {error}").text, 400)
    lessons, reason = await asyncio.to_thread(_by_extraction, attempts, settings)
    reasons = (f"compared without a model: {why}" if why else None, reason)
    return Contrast(lessons, "extractive", reason="; ".join(filter(None, reasons)) or None)


def _by_extraction(attempts: Sequence[Attempt], settings: Settings) -> tuple[tuple[Lesson, ...], str]:
    """Return what the calls teach, as far as it passes the checks, and why there is no more."""
    lessons, reason = contrast_by_extraction(attempts, settings)
    whole, kept, reasons = combined_trajectory(attempts), list[Lesson](), [reason] if reason else []
    for number, each in enumerate(lessons, 1):
        accepted, rejections = check_drafts((each.draft,), whole, settings)
        kept += [each._replace(draft=draft) for draft in accepted]
        reasons += [rejection.replace("item 1", f"item {number}") for rejection in rejections]
    return tuple(kept), "; ".join(reasons)


async def _ask_model(
    chat: ChatModel, attempts: Sequence[Attempt], mode: ScalingMode, settings: Settings
) -> Contrast | str:
    """Return what the model extracts, even if that is nothing; or, as a text, why its answer does not count."""
    asked = await ask_about(
        chat,
        lambda tokens: _prompt(attempts, mode, settings, tokens),
        ContrastAnswer,
        purpose="self_contrast",
        effort=AskOptions(settings.judge.timeout_s or _TIMEOUT_S),
        record_tokens=ATTEMPTS_TOKENS,
    )
    answer = asked.answer
    if isinstance(answer, ParseFailure):
        return f"the model's answer cannot be used: {answer.reason}"
    lessons, refused = await asyncio.to_thread(_checked, answer.items, attempts, asked.shown, settings)
    reason = "; ".join(refused)
    if not lessons:
        reason = reason or "the model found nothing that would help another task"
        if answer.items:
            return reason
    notes = tuple(one_line(_plain(note, settings), _MAX_NOTE_CHARS) for note in answer.notes[:_MAX_NOTES])
    return Contrast(lessons, "model", notes, reason or None, asked.prompt.hash, asked.model)


def _prompt(
    attempts: Sequence[Attempt], mode: ScalingMode, settings: Settings, tokens: int
) -> tuple[Rendered, Shortened]:
    shown = [shorten_trajectory(each.trajectory, tokens // len(attempts)) for each in attempts]
    ids = tuple(step for each in shown for step in each.shown)
    notes = [f"- attempt {each.number}: {_plain(note, settings)}" for each in attempts for note in each.notes]
    text = "\n\n".join(f"{each.title}\n{part.text}" for each, part in zip(attempts, shown, strict=True))
    rendered = render(
        load_prompt(PROMPT),
        given={"relation": _RELATIONS[mode], "count": str(len(attempts)), "max_items": str(MAX_ITEMS)},
        untrusted={
            "task": shown_task(attempts[0].trajectory, tokens // 2),
            "notes": "\n".join(notes) or "- none",
            "attempts": text,
        },
    )
    return rendered, Shortened(text, ids, sum(each.left_out for each in shown))


def _checked(
    items: Sequence[ContrastedItem], attempts: Sequence[Attempt], shown: Shortened, settings: Settings
) -> tuple[tuple[Lesson, ...], tuple[str, ...]]:
    whole, lessons = combined_trajectory(attempts), list[Lesson]()
    refused: list[str] = []
    owners = {step.id: attempt for attempt in attempts for step in attempt.trajectory.steps}
    for kind in ("strategy", "guardrail"):
        of_kind = [item for item in items if item.kind == kind]
        drafts, rejections = check_items(of_kind, whole, shown, settings, MAX_ITEMS - len(lessons))
        outcome: Outcome = "Success" if kind == "strategy" else "Failure"
        lessons += [Lesson(draft, outcome, owners.get((*draft.evidence, "")[0], attempts[0])) for draft in drafts]
        refused += [f"{kind} {rejection}" for rejection in rejections]
    return tuple(lessons), tuple(refused)


def _plain(text: str, settings: Settings) -> str:
    return redact(clean(text), pii=settings.distill.redact_pii).text


def contrast_by_extraction(attempts: Sequence[Attempt], settings: Settings) -> tuple[tuple[Lesson, ...], str | None]:
    """Return at most three lessons and, where there are none, why.

    First fixes that were seen to work, those that most failures lacked before others, and the user's corrections. If
    none of the fixed errors explains half of the failures, also what half of them ran into and no success did. If all
    of that is nothing, what sets one success apart from one failure. From a single attempt, all that it teaches.
    """
    if len(attempts) == 1:
        (one,) = attempts
        alone = distill_by_extraction(one.trajectory, one.verdict, settings)
        lessons = [Lesson(draft, _outcome(one), one) for draft in alone.drafts[:MAX_ITEMS]]
        return tuple(lessons), None if lessons else alone.reason
    looked = [analyze_attempt(attempt) for attempt in attempts]
    failures = sum(each.label == "Failure" for each in looked)
    fixes = shared_fixes(looked)
    lessons = [each.lesson for each in fixes if each.is_seen]
    # What the user said during one attempt holds for the others too.
    lessons += [
        Lesson(draft, _outcome(each.attempt), each.attempt) for each in looked for draft in corrections(each.reading)
    ]
    # Where most failures ended with an error that others got past, all other differences are incidental.
    if failures and not any(2 * each.failures >= failures for each in fixes):
        lessons += pitfalls(looked, {each.mark for each in fixes})
    by_title = {each.draft.title: each for each in reversed(lessons or [*difference(looked)])}
    if by_title:
        return tuple(by_title.values())[::-1][:MAX_ITEMS], None
    if all(each.label == "Undecided" for each in looked):
        return (), f"none of the {len(attempts)} attempts was decided, and none proves anything by itself"
    return (), "the attempts do not differ in anything that would help with another task"


def _outcome(attempt: Attempt) -> Outcome:
    return "Failure" if attempt.verdict.label == "Failure" else "Success"
