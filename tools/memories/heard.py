"""Whose words an agent passes on as the user's: those of a prompt, of a tool's result, or nobody's that was seen."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import not_
from typing import Literal, NamedTuple

from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.tools.guard.trust import MIN_WORDS, occurs_in, parts_of
from swarm_memory.tools.text.opposition import is_negated
from swarm_memory.tools.text.pasted import own_words
from swarm_memory.tools.text.requests import asks_to_be_kept, is_meant_once, is_question
from swarm_memory.tools.text.tokens import tokenize
from swarm_memory.tools.trajectory.calls import Call, calls_of
from swarm_memory.tools.trajectory.tasks import is_own_tool, is_task_prompt, task_text

SPOKEN = 0.8
"""The share of a sentence's words, of different stems, that stand together in one prompt: docs/SECURITY.md."""

_EXACT = re.compile(r"`[^`\n]+`|\S*\w[./\\_:@$=~+-]\w\S*|\S*\d\S*|\B--?\w\S*")
"""Commands, paths, addresses, options, numbers: what must be in the prompt to the last word."""

_WHOLE = re.compile(r"""(?:[^.!?\n]|[.!?](?!["'”»)]{0,3}\s))*(?:[.!?]["'”»)]{0,3})?\s*""")
"""A sentence with what closes it."""


@dataclass(frozen=True, slots=True)
class Heard:
    """Where the words of a text are."""

    where: Literal["prompt", "result", "nowhere", "unseen"]
    """unseen: there was no prompt to look at."""
    tool: str = ""
    """Of a result: of which tool."""
    said: str = ""
    """The sentences that a prompt says, where it does not say all of them."""
    rest: str = ""


UNSEEN = Heard("unseen")


class Session(NamedTuple):
    """What is known of the session in which an agent says something."""

    session_id: str | None = None
    task_id: str | None = None
    """The task that it works on."""
    trajectories: tuple[Trajectory, ...] = ()
    """Its tasks so far, as its transcript has them."""
    prompts: tuple[str, ...] = ()
    """What its hooks saw."""
    root: str = ""
    """The project's folder."""

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of the task that it works on."""
        return calls_of(self.trajectories[-1]) if self.trajectories else ()

    def heard(self, text: str) -> Heard:
        """Return where the words of a text are in it."""
        return heard(text, self.trajectories, self.prompts)


NO_SESSION = Session()


def heard(text: str, session: Sequence[Trajectory], prompts: Iterable[str] = ()) -> Heard:
    """Return where the words of a text are in a session, and in prompts that its hooks saw.

    They are the user's where each sentence is in one prompt: `SPOKEN` of its words within two sentences that follow
    one another, all that is exact in it, and turned the same way ("never"). What is pasted into a prompt, asked in it,
    or meant once only is not said. Else they are the result's in which one of its sentences stood first, before the
    agent said it. Linear in the length of the session for each sentence.
    """
    steps = [step for trajectory in session for step in trajectory.steps]
    typed = [step.text for step in steps if step.kind == "message" and step.role == "user"]
    asked = [each for each in (*(each.task for each in session), *typed, *prompts) if is_task_prompt(each)]
    if not asked:
        return UNSEEN
    own = [own_words(task_text(each)) for each in asked]
    wholes = [whole for whole in _WHOLE.findall(text) if whole.strip()]
    by_prompt = [all(any(_says(prompt, each) for prompt in own) for each in _sentences(whole)) for whole in wholes]
    if all(by_prompt):
        return Heard("prompt")
    chosen = (by_prompt, map(not_, by_prompt)) if any(by_prompt) else ((), ())
    said, rest = ("".join(compress(wholes, each)).strip() for each in chosen)
    ours = {step.call_id for step in steps if step.tool_name is not None and is_own_tool(step.tool_name)}
    names = {step.call_id: step.tool_name or "" for step in steps if step.kind == "tool_call"}
    for sentence in _sentences(text):
        words = frozenset(tokenize(sentence))
        if len(words) < MIN_WORDS:
            continue
        for step in steps:
            if step.call_id not in ours and occurs_in(words, step.text):
                if step.kind == "observation":
                    return Heard("result", names.get(step.call_id, step.tool_name or ""), said, rest)
                break
    return Heard("nowhere", "", said, rest)


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences; one of hardly any words goes with the next, but for one that ends with a colon."""
    before = ""
    for part in parts_of(text):
        before = f"{before} {part}".strip()
        is_short = len(set(tokenize(before))) < MIN_WORDS
        if is_short and before.endswith(":") and not _EXACT.search(before):
            before = ""
        elif not is_short:
            yield before
            before = ""
    if before:
        yield before


def _says(prompt: str, sentence: str) -> bool:
    words = frozenset(tokenize(sentence))
    exact = {token for found in _EXACT.findall(sentence) for token in tokenize(found)}
    before, shared = "", frozenset[str]()
    for part in parts_of(prompt):
        asks = is_question(part) and not asks_to_be_kept(part)
        if asks or (is_meant_once(part) and not is_meant_once(sentence)):
            before, shared = "", frozenset[str]()
            continue
        own = words.intersection(tokenize(part))
        main = part if len(own) >= len(shared) else before
        if (
            exact <= own | shared
            and len(own | shared) >= SPOKEN * len(words)
            and is_negated(sentence) == is_negated(main)
        ):
            return True
        before, shared = part, own
    return False
