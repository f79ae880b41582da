"""What several attempts at one task teach together, by their calls alone; no model, and nothing is stored.

What got any attempt past an error, what most successes did and no failure, what failures ran into and no success. What
counts is in how many attempts it stands, not how often; what stands in one alone must have been seen to work.
"""

from collections.abc import Iterator, Sequence

from swarm_memory.schema.memory import Outcome
from swarm_memory.schema.settings import Settings
from swarm_memory.tools.distill.corrections import corrections, pointers
from swarm_memory.tools.distill.distill import MIN_VALUE, distill_by_extraction
from swarm_memory.tools.distill.lessons import Lesson, Material, repair_lesson
from swarm_memory.tools.matts.attempts import Attempt, Drawn
from swarm_memory.tools.matts.contrast_patterns import patterns, pitfalls
from swarm_memory.tools.matts.contrast_repairs import Looked, Shared, look, shared_repairs

_MAX_EVIDENCE = 20


def contrast_by_extraction(
    attempts: Sequence[Attempt], best: int, settings: Settings, max_items: int
) -> tuple[tuple[Drawn, ...], str | None]:
    """Return at most `max_items` items and, where there are none, why.

    First what any attempt was seen to do against an error, the errors that kept failures from the end before the
    others. Where no such error says why most failures failed, the patterns of most successes that no failure has, and
    what at least half of the failures, and no success, ran into. Of one attempt alone all that it teaches.
    """
    if len(attempts) == 1:
        return _alone(attempts[0], settings, max_items)
    looked = [look(attempt) for attempt in attempts]
    met = [each for each in looked if each.label == "Success"]
    missed = [each for each in looked if each.label == "Failure"]
    shared = shared_repairs(looked)
    told = [_told(each) for each in sorted(shared, key=_kept_from_the_end, reverse=True)]
    drawn = [drawn for lesson, drawn in told if lesson.proven and lesson.value >= MIN_VALUE]
    drawn += _from_the_user(looked)
    if missed and not any(_explains(each, missed) for each in shared):
        drawn += patterns(met, missed)
        drawn += pitfalls(looked, met, missed, frozenset(each.mark for each in shared))
    kept = {each.draft.title: each for each in reversed(drawn)}
    drawn = [each for each in drawn if kept[each.draft.title] is each][:max_items]
    if drawn:
        return tuple(drawn), None
    if not met and not missed:
        return (), f"none of the {len(attempts)} attempts was decided, and none proves anything within itself"
    return (), "the attempts differ in nothing that would help with another task"


def _alone(attempt: Attempt, settings: Settings, max_items: int) -> tuple[tuple[Drawn, ...], str | None]:
    found = distill_by_extraction(attempt.trajectory, attempt.verdict, settings)
    drawn = tuple(Drawn(draft, _outcome(attempt), attempt.number) for draft in found.drafts[:max_items])
    return drawn, None if drawn else found.reason


def _outcome(attempt: Attempt) -> Outcome:
    return "Failure" if attempt.verdict.label == "Failure" else "Success"


def _explains(shared: Shared, missed: Sequence[Looked]) -> bool:
    """Whether most failures ended with an error that others got past: all else that parts them is then by the way."""
    return 2 * sum(each in shared.open_in for each in missed) >= len(missed)


def _kept_from_the_end(shared: Shared) -> tuple[int, int]:
    """How many failures an error kept from the end, then how many attempts bear the way out of it out."""
    return sum(each.label == "Failure" for each in shared.open_in), len(shared.borne_out)


def _told(shared: Shared) -> tuple[Lesson, Drawn]:
    """Return the lesson of a way out, with the steps of all attempts that bear it out as its evidence."""
    owner = shared.owner
    material = _material(owner)
    lesson = repair_lesson(
        material, shared.repair, owner.names, [f"Checked and corrected: {note}" for note in owner.attempt.notes[:2]]
    )
    others = [
        step
        for each in shared.borne_out
        if each is not owner
        for repair in each.repaired.get(shared.mark, ())[:1]
        for step in (*repair.failed.ids, *repair.success.ids)
    ]
    evidence = tuple(dict.fromkeys([*lesson.draft.evidence, *others]))[:_MAX_EVIDENCE]
    draft = lesson.draft.model_copy(update={"evidence": evidence, "tags": _tagged(lesson.draft.tags)})
    return lesson, Drawn(draft, "Success", owner.attempt.number)


def _tagged(tags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(("contrast", *tags)))[:8]


def _material(looked: Looked) -> Material:
    return Material(looked.attempt.trajectory, looked.attempt.verdict, looked.calls, looked.names)


def _from_the_user(all_: Sequence[Looked]) -> Iterator[Drawn]:
    """What the user said while an attempt was made holds for the others too."""
    for each in all_:
        for find in (corrections, pointers) if each.calls else ():
            for lesson in find(_material(each)):
                if lesson.proven and lesson.value >= MIN_VALUE:
                    yield Drawn(lesson.draft, _outcome(each.attempt), each.attempt.number)
