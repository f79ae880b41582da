"""What a session is shown without asking: projects' rules, each with a task for which the rule matters.

    python benchmarks/moments.py PROJECT.json... [--embedder static]
    python benchmarks/moments.py PROJECT.json... --questions FILE     # then: --answers FILE

A file is {"project", "rules": [{"title", "when", "note", "prompt", "calls": [{"tool", "input", "error"}]}]}: a rule as
an agent teaches it, a task in a user's words, and the calls that an agent would make for it, with the error of a failed
call. Each project is a bank, taught with `remember`. Each task is a session that goes through the hooks, once in its
own project and once, as a foreign task, in each of the others.

`--questions` writes questions for an agent that is given nothing else: each project's lines at a session's start, and
each task's prompt with its own project's lines and with another's. The answers: {"0": [numbers of lines from 0], ...}.
"""

import argparse
import asyncio
import json
import random
import re
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from made_banks import open_bank, own_home

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import Note
from swarm_memory.schema.settings import Settings
from swarm_memory.server.hooks.events import HookEvent, handle_hook
from swarm_memory.server.location import Location
from swarm_memory.server.wiring import make_embedder
from swarm_memory.tools.credit.intervals import wilson
from swarm_memory.tools.memories.remember import remember_notes
from swarm_memory.tools.retrieve.preamble import render_moments
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.text.tokens import count_tokens
from swarm_memory.tools.toolbox import Toolbox

PLACE = Location(Path(), Path(), is_remote=True)
ID, LISTED = re.compile(r"\[(rm_\w+)\]"), re.compile(r"^- (.+)$", re.MULTILINE)


class Played(NamedTuple):
    """What one session was shown: the ids of the notes whose moments are listed at its start, of those shown in full or
    listed at its prompt, and of those at each call and its failure; and the tokens of all of them.
    """

    at_start: frozenset[str]
    at_prompt: frozenset[str]
    at_calls: Sequence[frozenset[str]]
    tokens: int
    wanted: str = ""
    """In the task's own project, the id of the rule that matters; `stood_first`: a retrieval ranks it first."""
    stood_first: bool = False

    @property
    def later(self) -> frozenset[str]:
        return self.at_prompt.union(*self.at_calls)


async def play(bank: Toolbox, moments: dict[str, str], task: dict[str, Any], session_id: str) -> Played:
    """Play a task through the hooks; `moments` maps a line about when a note matters to the note's id."""
    texts = list[str]()

    async def opened() -> Toolbox:
        return bank

    async def shown_at(event: str, **fields: Any) -> frozenset[str]:
        heard = HookEvent(hook_event_name=event, session_id=session_id, **fields)
        answer: Any = await handle_hook(opened, heard, "server", PLACE)
        texts.append(answer["hookSpecificOutput"]["additionalContext"] if answer else "")
        listed = (moments.get(line) for line in LISTED.findall(texts[-1]))
        return frozenset(ID.findall(texts[-1])) | frozenset(filter(None, listed))

    at_start = await shown_at("SessionStart", source="startup")
    at_prompt, at_calls = await shown_at("UserPromptSubmit", prompt=task["prompt"]), list[frozenset[str]]()
    for call in task["calls"]:
        fields = {"tool_name": call["tool"], "tool_input": call["input"]}
        shown = await shown_at("PreToolUse", **fields)
        at_calls.append(shown)
        if call["error"]:
            at_calls[-1] |= await shown_at("PostToolUseFailure", error=call["error"], **fields)
    return Played(at_start, at_prompt, at_calls, sum(map(count_tokens, texts)))


async def measure(projects: Sequence[dict[str, Any]], folder: Path, settings: Settings) -> None:
    """Play every task in every project's bank and print the figures."""
    own, foreign = list[Played](), list[Played]()
    async with AsyncExitStack() as stack:
        for project in projects:
            (place := folder / project["project"]).mkdir()
            opened = open_bank(place, Scope(project=project["project"]), settings, make_embedder(settings.embedding))
            bank = await stack.enter_async_context(opened)
            notes = [Note(title=rule["title"], when=rule["when"], note=rule["note"]) for rule in project["rules"]]
            stored = [done.item for note in notes for done in await remember_notes(bank, [note])]
            moments = {line: item.id for item in stored for line in LISTED.findall(render_moments([item]))}
            for other in projects:
                for number, task in enumerate(other["rules"]):
                    played = await play(bank, moments, task, f"{other['project']}-{number}")
                    best = (await retrieve(bank, task["prompt"], k=1)).memories[0].item.id
                    wanted = stored[number].id if other is project else ""
                    played = played._replace(wanted=wanted, stood_first=best == wanted)
                    (own if wanted else foreign).append(played)
    for name, of in (("stood first", [task for task in own if task.stood_first]), ("matters", own)):
        rate(f"what {name}: listed at the start", [task.wanted in task.at_start for task in of])
        rate(f"what {name}: shown at the prompt", [task.wanted in task.at_prompt for task in of])
        rate(f"what {name}: shown at the prompt or a call", [task.wanted in task.later for task in of])
        rate(f"what {name}: listed or shown at some moment", [task.wanted in task.at_start | task.later for task in of])
    rate("foreign prompts at which anything is shown", [bool(task.at_prompt) for task in foreign])
    rate("foreign calls at which anything is shown", [bool(shown) for task in foreign for shown in task.at_calls])
    for name, of in (("its own", own), ("a foreign", foreign)):
        notes, tokens = fmean(len(task.later) for task in of), fmean(task.tokens for task in of)
        print(f"a session in {name} project is shown {notes:.1f} notes, {tokens:.0f} tokens")


def questions_of(projects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the lines of each project, by its number, and the prompts, own and foreign ones mixed."""
    lines = {f"project-{at}": [rule["when"] for rule in each["rules"]] for at, each in enumerate(projects)}
    asked = [
        {
            "lines": f"project-{(at + off) % len(projects)}",
            "prompt": rule["prompt"],
            "right": number if not off else None,
        }
        for at, each in enumerate(projects)
        for number, rule in enumerate(each["rules"])
        for off in {0, 1 + number % (len(projects) - 1)}
    ]
    return {"lines": lines, "asked": random.Random(5).sample(asked, len(asked))}


def rate_answers(asked: Sequence[dict[str, Any]], answers: dict[str, list[int]]) -> None:
    """Print how often the right line was chosen, and how often any line was at a foreign prompt."""
    own = [(each["right"], answers[str(at)]) for at, each in enumerate(asked) if each["right"] is not None]
    rate("the right note is chosen", [right in chosen for right, chosen in own])
    rate(
        "any note is chosen at a foreign prompt",
        [bool(answers[str(at)]) for at, each in enumerate(asked) if each["right"] is None],
    )
    print(f"chosen at a prompt of its own: {fmean(len(chosen) for _, chosen in own):.1f}")


def rate(what: str, cases: Sequence[bool]) -> None:
    """Print a share with its interval (Wilson)."""
    share = wilson(sum(cases), len(cases))
    print(f"{what:<50} {share.value:6.1%} [{share.low:.1%}, {share.high:.1%}] of {len(cases)}")


def main() -> None:
    """Measure the projects of the files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("projects", nargs="+", type=Path)
    parser.add_argument("--embedder", default="auto")
    parser.add_argument("--questions", type=Path)
    parser.add_argument("--answers", type=Path)
    asked = parser.parse_args()
    projects = [json.loads(path.read_text(encoding="utf-8")) for path in asked.projects]
    questions = questions_of(projects)
    if asked.answers:
        return rate_answers(questions["asked"], json.loads(asked.answers.read_text(encoding="utf-8")))
    if asked.questions:
        shown = [{key: each[key] for key in ("lines", "prompt")} for each in questions["asked"]]
        asked.questions.write_text(
            json.dumps({**questions, "asked": dict(enumerate(shown))}, indent=1), encoding="utf-8"
        )
        return None
    with own_home() as folder:
        return asyncio.run(
            measure(projects, folder, Settings.model_validate({"embedding": {"provider": asked.embedder}}))
        )


if __name__ == "__main__":
    main()
