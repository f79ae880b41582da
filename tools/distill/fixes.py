"""Fixes: what ended an error, a candidate at first and a memory once a second task confirms it. Procedures: how this
project's checks are run, where that is not what everybody would try first.

An error occurred, something was done, then the call went through. One task cannot show which part helped; two can.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

from swarm_memory.schema.memory import CANDIDATE, FIX, MemoryDraft, MemoryItem
from swarm_memory.tools.distill.drafts import MAX_SHOWN, draft_of, guardrail_draft, is_repeatable, repair_draft
from swarm_memory.tools.ports.records import TriedFix
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.check_runs import selection_of
from swarm_memory.tools.trajectory.errors import LOOKS, Error, Repair, may_have_effect, shape
from swarm_memory.tools.trajectory.failures import classify
from swarm_memory.tools.trajectory.phrasing import folder_of, show_call, show_command, show_symptom
from swarm_memory.tools.trajectory.reading import Reading
from swarm_memory.tools.trajectory.shell import parse_command

OWN_FAULTS = frozenset({"assertion", "syntax", "types"})
"""Kinds of errors in what the agent had just written: what ended one of them does not help with the next."""

_MAX_ACTIONS = 3
_OF_ONE_RUN = re.compile(r"(?<![\w.])\d{3,}(?![\w.])|\b(?=\w*\d)(?=\w*[a-f])[0-9a-f]{6,}\b|<[a-z]+>|…")
"""What differs in another run: a process id, a free port, the holder of a lock."""


def is_of_one_run(text: str) -> bool:
    """Whether a step names something that differs in another run."""
    return _OF_ONE_RUN.search(text) is not None


class Fix(NamedTuple):
    """An error that ended, with what ended it."""

    signature: str
    """The digest of the error's signature."""
    repair: Repair
    """The error's repair, with only these actions."""
    actions: tuple[str, ...]
    """What was done, in order and as it is shown; last comes the other call, if one went through instead."""

    def common(self, actions: Sequence[str], names: Sequence[str]) -> "Fix | None":
        """Return the fix with only what was also done another time; None unless both ended with the same action."""
        both = tuple(each for each in actions if each in self.actions) if actions[-1:] == self.actions[-1:] else ()
        kept = tuple(call for call in self.repair.actions if show_call(call, names, MAX_SHOWN) in both)
        return Fix(self.signature, replace(self.repair, actions=kept), both) if both else None


def fixes_of(reading: Reading) -> tuple[Fix, ...]:
    """Return one fix for each error that something ended; if it ended twice, with what was done both times."""
    found: dict[str, Fix] = {}
    for fix in filter(None, (_fix(error, reading) for error in reading.errors)):
        earlier = found.get(fix.signature, fix)
        found[fix.signature] = fix.common(earlier.actions, reading.particulars) or earlier
    return tuple(found.values())


def _fix(error: Error, reading: Reading) -> Fix | None:
    """Return the fix of an error that later tasks may meet, if it can be repeated and was not in vain before."""
    repair, failed, names = error.repair, error.calls[0], reading.particulars
    if repair is None or failed.signature is None or not (is_seen(repair) and may_come_again(failed, reading)):
        return None
    done = [*repair.actions, *([repair.success] if repair.success.command else [])]
    others = (call for call in done if show_call(call, names) != show_call(failed, names))
    steps = {show_call(call, names, MAX_SHOWN): call for call in others}
    if not 0 < len(steps) <= _MAX_ACTIONS or any(map(is_of_one_run, steps)) or reading.is_own(repair.success):
        return None
    if steps.keys() & _in_vain(reading)[failed.signature.digest] or not all(map(is_repeatable, steps.values())):
        return None
    actions = tuple(call for call in steps.values() if call is not repair.success)
    return Fix(failed.signature.digest, replace(repair, actions=actions), tuple(steps))


def may_come_again(failed: Call, reading: Reading) -> bool:
    """Whether another task may meet the error: it is not in the agent's own work, nor a mere search or read."""
    is_look = failed.command is not None and failed.command.purpose in LOOKS
    return not (is_look or classify(failed.error).kind in OWN_FAULTS or reading.is_own_fault(failed))


def guardrails(reading: Reading) -> Iterator[MemoryDraft]:
    """Yield as candidates a failed task's errors that came back and that nothing ended, with what was done in vain.

    It certainly did not help there, but may help elsewhere: a person decides whether others are shown it.
    """
    for error in reading.errors:
        first, *again = error.calls
        signature = first.signature
        if error.repair is not None or not again or signature is None or not may_come_again(first, reading):
            continue
        done = (text for text in _in_vain(reading)[signature.digest] if not is_of_one_run(text))
        draft = guardrail_draft(error.calls, done, reading.particulars, tags=(CANDIDATE,))
        if draft is not None:
            yield draft


def is_seen(repair: Repair) -> bool:
    """Whether a call was seen to get past the error, and the error is more than a slip with a tool of the host's.

    Names of a host's tools begin with a capital letter; those of a service's tools seldom do.
    """
    failed, success = repair.failed, repair.success
    passed = success.failed or success.went_through or success.command is None
    is_slip = failed.command is None and failed.tool[:1].isupper()
    return not is_slip and (passed or bool(success.check and success.check.passed))


_VAIN: WeakKeyDictionary[Reading, dict[str, list[str]]] = WeakKeyDictionary()
"""By reading: `shape` and `show_call` redact, which is slow, so they are called once for each call."""


def _in_vain(reading: Reading) -> dict[str, list[str]]:
    """Return by signature digest what was done, or failed, in vain: before an error occurred, or occurred again."""
    if reading in _VAIN:
        return _VAIN[reading]
    found: dict[str, list[str]] = {}
    calls = reading.calls if reading.errors else ()
    shapes = {call.position: shape(call) for call in calls}
    acts = (call for call in calls if call.failed or may_have_effect(call))
    done = {call.position: show_call(call, reading.particulars, MAX_SHOWN) for call in acts}
    for error in reading.errors:
        first, until = error.calls[0], error.calls[-1].position
        if first.signature is None:
            continue
        runs = [call for call in calls if shapes[call.position] == shapes[first.position]]
        since = max((call.end for call in runs if not call.failed and call.end < first.position), default=-1)
        # For an open error, also what preceded a different failure of the call; but work may break a check.
        if error.repair is None and first.check is None:
            until = max(call.position for call in runs if call.failed)
        same = {call.position for call in runs}
        found[first.signature.digest] = [done[at] for at in done if since < at < until and at not in same]
    return _VAIN.setdefault(reading, found)


def _stand_in_order(wanted: Sequence[str], done: Sequence[str]) -> bool:
    rest = iter(done)
    return bool(wanted) and all(each in rest for each in wanted)


def _helped(known: Sequence[str], vain: Sequence[str], ended: Sequence[str]) -> bool | None:
    """Return whether a known fix of an error ended it; None when the fix was not tried."""
    is_last = known[-1:] == ended[-1:] and _stand_in_order(known, (*vain, *ended))
    return False if _stand_in_order(known, vain) else is_last or None


def fix_drafts(reading: Reading, bank: Sequence[tuple[str, MemoryItem]]) -> Iterator[MemoryDraft]:
    """Yield drafts of the fixes not yet known: each a candidate, or what a candidate of another session did as well.

    `bank` holds the known fixes of the same errors, including candidates, each with the error's signature.
    """
    names, vain = reading.particulars, _in_vain(reading)
    task_id, session = reading.trajectory.task_id, reading.trajectory.session_id
    for fix in fixes_of(reading):
        known = [item for signature, item in bank if signature == fix.signature]
        known = [item for item in known if item.provenance.task_id != task_id]  # this task teaches its own again
        if any(
            item.actions == fix.actions or _helped(item.actions, vain[fix.signature], fix.actions) for item in known
        ):
            continue
        others = [item.actions for item in known if session is None or session != item.provenance.session_id]
        commons = [common for actions in others if (common := fix.common(actions, names))]
        shown = max(commons, key=lambda each: len(each.actions), default=fix)
        yield repair_draft(shown.repair, names, tags=(FIX,) if commons else (FIX, CANDIDATE))


def fixes_tried(reading: Reading, known: Iterable[tuple[str, MemoryItem]]) -> Iterator[TriedFix]:
    """Yield the known fixes that were tried, and whether they helped; `known` pairs error signatures with fixes."""
    ended, vain = {fix.signature: fix.actions for fix in fixes_of(reading)}, _in_vain(reading)
    for signature, item in known:
        if (worked := _helped(item.actions, vain.get(signature, ()), ended.get(signature, ()))) is not None:
            yield TriedFix(signature, item.id, worked)


def match_fixes(reading: Reading, learned: Iterable[tuple[str, MemoryItem]]) -> tuple[TriedFix, ...]:
    """Return which memory holds the fix of which error.

    `learned` are ids of memories in the bank, each with the item that was distilled from the trajectory.
    """
    fixes = {fix.repair.failed.step.id: fix for fix in fixes_of(reading)}
    held = ((memory_id, item.provenance.evidence[:1]) for memory_id, item in learned if FIX in item.tags)
    found = (TriedFix(fixes[step].signature, each) for each, first in held for step in first if step in fixes)
    return tuple(dict.fromkeys(found))


_CUSTOMARY = re.compile(
    r"^(?:python\d? -m )?(?:pytest|unittest|jest|vitest|ruff|mypy|eslint|tsc|flake8|make|gcc|g\+\+|javac|python\d?|node"
    r"|(?:npm|yarn) test|npm run (?:test|build|lint)|go (?:test|build|vet)|cargo (?:test|build|check|clippy))\b"
)
"""What everybody would try first."""

_SEPARATOR = re.compile(r"(?<!\s)\s*(?:&&|\|\||;|\n)\s*")
_MAX_CHECKS = 3


def project_checks(reading: Reading) -> Iterator[MemoryDraft]:
    """Yield how the checks of this project are run, where that is not what everybody would try first.

    Only checks that were seen to pass count; not those that the agent wrote itself, nor those that a fix already
    shows. A file that was named belongs to that task: FILE replaces it.
    """
    fixed = {fix.repair.success.position for fix in fixes_of(reading)}
    last = {call.name: (call, text) for call in reading.calls if (text := _check(call, reading))}
    checks = sorted(last.values(), key=lambda each: each[0].position)[:_MAX_CHECKS]
    lines, named = list[str](), list[str]()
    for call, text in checks:
        folder, result = folder_of(call.command.text) if call.command else "", call.check
        shown = f"`{text}`" + (f" in the folder `{folder}`" if folder else "")
        if result:
            said = show_symptom(result.summary, (), 60)
            lines.append(f'{result.purpose.capitalize()}: {shown} (it said "{said}").')
        if call.position not in fixed and (folder or not _CUSTOMARY.match(text)):
            named.append(f"`{one_line(text, 40)}`")
    if named:
        yield draft_of(
            title=f"Checks of this project: {' and '.join(named[:2])}",
            when="a change in this project has to be checked: how its tests, linters and builds are run",
            lines=lines,
            tags=("procedure",),
            calls=[call for call, _ in checks],
        )


def _check(call: Call, reading: Reading) -> str:
    """Return only the check that a call ran, if it passed, is not the agent's own and can be shown; else empty."""
    result, command = call.check, call.command
    part = command.check if command else None
    if not (command and part and result and result.passed and result.summary) or reading.is_own(call):
        return ""
    parts = ((text, parse_command(text).parts[:1]) for text in _SEPARATOR.split(command.text))
    shown = show_command(next((text for text, alone in parts if alone and alone[0].words == part.words), ""), (), 999)
    for path in sorted(selection_of(call).paths, key=len, reverse=True):
        shown = shown.replace(path, "FILE") if "." in path.rpartition("/")[2] else shown
    return shown if len(shown) <= MAX_SHOWN and not folder_of(command.text).startswith(("/", "~")) else ""
