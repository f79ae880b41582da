"""The agent of the scenes: it knows nothing of any memory, reads what it is told as text, and acts on it.

Its rule. A text falls into passages: at blank lines, at lines that begin with a number or a bullet, and where it is
JSON by its objects and strings. A passage is about the task when it names the script that the task names, or holds
most words of the error that stands. Of the commands in such passages (those of the project, and what stands in
back-ticks or after "$ ") it takes the most often named first, and of equals the last; one that a sentence names with
"not", "never" or "in vain", whatever is quoted aside, it leaves alone. What it is told so it does before the task's own
command; else it tries that, and then one after the other what there is. It is the same for every memory.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from swarm_memory.tools.benchmark.suites.scenes import Session

_ENTRY = re.compile(r"\n\s*\n|\n(?=\s*(?:\d+[.)]|[-*•#])\s)")
_QUOTED = re.compile(r'"[^"\n]*"')
_SENTENCE = re.compile(r"(?<=[.;!?])\s+|\n")
_AGAINST = re.compile(r"\b(?:not|never|in vain)\b|n't\b", re.IGNORECASE)
_COMMAND = re.compile(r"`((?:sh|curl) [^`\n]+)`|^\s*\$ ((?:sh|curl) .+)$", re.MULTILINE)
_WORD = re.compile(r"[a-z]{3,}")
_COMMON = frozenset({"the", "error", "and", "this", "that", "exit", "code"})
_MOST = 0.75


def passages(text: str) -> Iterator[str]:
    """Yield the passages of a text."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, (dict, list)):
        for each in _strings(found):
            yield from _plain(each)
    else:
        yield from _plain(text)


def _plain(text: str) -> Iterator[str]:
    return (each.strip() for each in _ENTRY.split(text) if each.strip())


def _strings(value: Any) -> Iterator[str]:
    """Yield the strings of an object as one text, those of a list each."""
    if isinstance(value, dict):
        held = cast("dict[str, Any]", value)
        yield "\n".join(each for each in held.values() if isinstance(each, str))
        for each in held.values():
            if isinstance(each, (dict, list)):
                yield from _strings(each)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _strings(each) if isinstance(each, (dict, list)) else iter((str(each),))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower())) - _COMMON


def advised(told: Sequence[str], session: Session, error: str) -> list[str]:
    """Return the commands that texts speak for, in the order in which the agent takes them."""
    said = _words(error)
    found: list[str] = []
    against: set[str] = set()
    for text in told:
        for passage in passages(text):
            if session.script in passage or (said and len(said & _words(passage)) >= _MOST * len(said)):
                for sentence in _SENTENCE.split(_QUOTED.sub("", passage)):
                    if _AGAINST.search(sentence):
                        against.update(_commands(sentence, session))
                named = reversed(_commands(passage, session))
                found += sorted(named, key=lambda command: -passage.count(command))
    own = len(session.goals) == 1
    return [each for each in dict.fromkeys(found) if each not in against and not (own and session.script in each)]


def _commands(text: str, session: Session) -> list[str]:
    """Return the commands that a text names, in its order."""
    at = {text.rfind(each): each for each in (*session.goals, *session.others)}
    at |= {found.start(): (found[1] or found[2]).strip() for found in _COMMAND.finditer(text)}
    at.pop(-1, None)
    return list(dict.fromkeys(at[place] for place in sorted(at)))


@dataclass(frozen=True, slots=True)
class Call:
    """A command that was run."""

    command: str
    output: str
    code: int


@dataclass(slots=True)
class Work:
    """What the agent knows and did in a session; `next` says what it does now."""

    session: Session
    told: list[str] = field(default_factory=list[str])
    calls: list[Call] = field(default_factory=list[Call])
    _error: str = ""
    _reached: bool = False

    def next(self) -> str | None:
        """Return the command that is run now; None where the session is over."""
        if self._reached or len(self.calls) >= self.session.calls:
            return None
        tried = [each.command for each in self.calls]
        advice = [each for each in advised(self.told, self.session, self._error) if each not in tried]
        goal = self.session.goals[0]
        if len(self.session.goals) > 1:
            return next((each for each in advice if each in self.session.goals), goal)
        if advice and (not tried or tried[-1] == goal):
            return advice[0]
        if not tried or tried[-1] != goal:
            return goal
        return next((each for each in self.session.others if each not in tried), None)

    def see(self, call: Call) -> None:
        """Take in what came of a command."""
        self.calls.append(call)
        if call.command in self.session.goals:
            self._reached, self._error = call.code == 0, "" if call.code == 0 else call.output

    def corrected(self) -> str | None:
        """Return the command that the user wants in the place of what was done; None where nothing is said."""
        found = _COMMAND.search(self.session.wanted)
        return None if found is None else found[1]

    @property
    def failures(self) -> int:
        """How often the task's own command failed."""
        return sum(each.code != 0 and each.command in self.session.goals for each in self.calls)

    def cure(self) -> dict[str, str] | None:
        """Return the error that was ended, what was tried in vain, and what ended it; None where none was."""
        done = [each.command for each in self.calls if each.command not in self.session.goals]
        if not (self._reached and self.failures and done):
            return None
        error = next(each.output for each in self.calls if each.code and each.command in self.session.goals)
        return {"error": error, "wrong": ", ".join(done[:-1]) or self.session.goals[0], "right": done[-1]}

    def note(self) -> str:
        """Return what the agent writes down of a session where its memory wants to be written to."""
        session, done = self.session, [each for each in self.calls if each.command not in self.session.goals]
        if session.page:
            return session.page
        if session.wanted:
            return f"{session.task} The user said: {session.wanted}"
        if not self.failures:
            return f"{session.task} `{self.calls[-1].command}` went through at once."
        error = next(each.output for each in self.calls if each.code and each.command in session.goals)
        vain = done[:-1] if self._reached else done
        said = [f'`{session.goals[0]}` failed with "{error}".']
        if vain:
            said.append(f"{', '.join(f'`{each.command}`' for each in vain)} did not help.")
        if self._reached:
            said.append(f"After `{done[-1].command}` it went through.")
        return " ".join(said)

    def transcript(self) -> str:
        """Return the session as it went, as a terminal shows it."""
        lines = [f"> {self.session.task}"]
        for at, each in enumerate(self.calls):
            if self.session.wanted and at == len(self.calls) - 1:
                lines.append(f"> {self.session.wanted}")
            lines += [f"$ {each.command}", each.output, *([f"exit code {each.code}"] if each.code else [])]
        if self.session.page:
            lines.insert(1, f"$ cat docs/{self.session.script.removesuffix('.sh')}.md\n{self.session.page}")
        return "\n".join(lines)
