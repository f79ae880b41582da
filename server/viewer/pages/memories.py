"""Memories: search, list, a preview of what an agent would be shown, one memory in full, actions on one or many."""

import re
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher
from functools import partial
from typing import TYPE_CHECKING, get_args
from urllib.parse import urlencode

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryStatus, Outcome
from swarm_memory.server.viewer.page import ActionResult, Page, PageRequest, Route, Undo
from swarm_memory.tools.memories.decide import Decision, MemoryChange, edit, make_global, set_memory_status, vouch
from swarm_memory.tools.memories.manage import forget_memories, get_memories, list_memories, what_stayed
from swarm_memory.tools.memories.record import Version, memory_record
from swarm_memory.tools.memories.remember import remember
from swarm_memory.tools.ports.memories import MemoryFilter, SearchFilter
from swarm_memory.tools.retrieve.retrieve import Unasked, explain
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.text.tokens import count_tokens

if TYPE_CHECKING:
    from swarm_memory.tools.toolbox import Toolbox

PER_PAGE = 30
SHOWN = 12
"""At most this many of the memories that a search considered are shown with the parts of their scores."""

KINDS: Mapping[str, Outcome | None] = {"": None, "strategy": "Success", "guardrail": "Failure"}
STATUSES: Mapping[str, tuple[MemoryStatus, ...]] = {
    "": ("active",),
    "quarantined": ("quarantined",),
    "archived": ("archived",),
    "candidate": ("candidate",),
    "any": get_args(MemoryStatus),
}
WITHDRAWN = "withdrawn by the user"
_TO: Mapping[str, MemoryStatus] = {"withdraw": "archived", "restore": "active"}
_BACK = re.compile(r"/|/review\?kind=[a-z]+|/memories(/rm_[0-9A-Z]{26}|\?[\w.~%=&+-]*)?", re.ASCII)


def toolbox_of(asked: PageRequest, given: Mapping[str, str]) -> "tuple[Toolbox, dict[str, str]]":
    """Return the toolbox of the requested project, and what names it in an address: nothing for our own project."""
    project = given.get("project", "")
    if project in ("", asked.toolbox.scope.project):
        return asked.toolbox, {}
    return asked.toolbox.in_project(project), {"project": project}


async def memories(asked: PageRequest) -> Page:
    """Show what a search considers, or list what passes the filters, newest first."""
    toolbox, project = toolbox_of(asked, asked.query)
    text, status, kind = (asked.query.get(name, "").strip() for name in ("q", "status", "kind"))
    if status not in STATUSES or kind not in KINDS:
        raise InputError("status must be quarantined, archived, candidate or any; kind must be strategy or guardrail")
    domain, tag, agent = (asked.query.get(name) or None for name in ("domain", "tag", "agent"))
    only = SearchFilter(domain=domain, tags=(tag,) if tag else (), agent_id=agent)
    which = MemoryFilter(
        STATUSES[status],
        domain,
        only.tags,
        text=text or None,
        limit=PER_PAGE + 1,
        offset=(asked.page - 1) * PER_PAGE,
        outcome=KINDS[kind],
        agent_id=agent,
    )
    explained = await explain(toolbox, text, only=only) if text and not status else None
    found = [] if explained else await list_memories(toolbox, which)
    considered = [
        each for each in (explained.considered if explained else ()) if KINDS[kind] in (None, each.memory.item.outcome)
    ]
    return Page(
        "memories.html",
        {
            "explained": explained,
            "considered": considered,
            "shown": SHOWN,
            "items": found[:PER_PAGE],
            "has_more": len(found) > PER_PAGE,
            "page": asked.page,
            "facets": await toolbox.store.review.facets(toolbox.scope.readable()),
            "filters": {name: asked.query.get(name, "") for name in ("q", "status", "kind", "domain", "tag", "agent")},
            "kept": {name: value for name, value in asked.query.items() if name != "page"},
            "back": f"/memories?{urlencode(asked.query)}",
            "here_project": toolbox.scope.project,
            "project_query": project,
        },
    )


async def preview(asked: PageRequest) -> Page:
    """Show what an agent would read for a prompt, and all that was considered. Nothing is recorded or credited."""
    toolbox, project = toolbox_of(asked, asked.query)
    prompt = asked.query.get("q", "").strip()
    explained = await explain(toolbox, prompt, unasked=Unasked(listed=())) if prompt else None
    return Page(
        "ask.html",
        {
            "prompt": prompt,
            "explained": explained,
            "shown": SHOWN,
            "tokens": count_tokens(explained.found.preamble) if explained else 0,
            "budget": toolbox.settings.retrieve.token_budget,
            "project_query": project,
        },
    )


async def memory(asked: PageRequest) -> Page:
    """Show one memory with all that is known about it."""
    toolbox, project = toolbox_of(asked, asked.query)
    record = await memory_record(toolbox, asked.path["memory_id"])
    return Page(
        "memory.html",
        {
            "record": record,
            "item": record.item,
            "sharing": (await toolbox.store.team.sharing([record.item.id])).get(record.item.id),
            "promoted": toolbox.promoted(None).get(record.item.id),
            "changes": [
                (former, list(_changes(former, later)))
                for former, later in zip(record.versions, record.versions[1:], strict=False)
            ][::-1],
            "history": record.history[::-1],
            "project_query": project,
        },
    )


async def form_page(template: str, asked: PageRequest) -> Page:
    """Show the form to change a memory, or to confirm that it shall be forgotten for good."""
    toolbox, project = toolbox_of(asked, asked.query)
    (item,) = await get_memories(toolbox, [asked.path["memory_id"]])
    return Page(template, {"item": item, "project_query": project, "back": back_of(asked.query, "")})


async def forget(asked: PageRequest) -> ActionResult:
    """Forget a memory for good."""
    toolbox, _ = toolbox_of(asked, asked.form)
    with_task = asked.form.get("with_task") == "on"
    done = await forget_memories(toolbox, [asked.path["memory_id"]], with_trajectories=with_task)
    stayed = what_stayed(done, "forget these too and it goes", toolbox.promoted(None))
    back = in_project(back_of(asked.form, "/memories"), asked.form)
    return ActionResult(back, " ".join(("Forgotten for good.", "; ".join(stayed))).strip())


async def change_list(asked: PageRequest) -> ActionResult:
    """Add what the user says, or withdraw or restore one memory of a list or those selected in it."""
    toolbox, _ = toolbox_of(asked, asked.form)
    what, _, one = asked.form.get("what", "").partition(" ")
    if what == "add":
        added = await remember(toolbox, asked.form.get("text", ""), by_hand=True)
        says = f"{'Added' if added.is_new else 'Already there'}: {added.item.title}"
        return ActionResult(in_project("/memories", asked.form), "; ".join((says, *added.notices)))
    if what not in _TO:
        raise InputError(f"memories in a list can be added, withdrawn or restored, not {what[:20]!r}")
    ids = [one] if one else [name for name in asked.form if name.startswith("rm_")]
    if not ids:
        raise InputError("nothing is selected: select memories first")
    decided = await set_memory_status(toolbox, ids, _TO[what], WITHDRAWN if what == "withdraw" else None)
    return decided_done(asked, decided, back_of(asked.form, "/memories"))


async def act(asked: PageRequest) -> ActionResult:
    """Carry out the action on a memory that was posted."""
    toolbox, _ = toolbox_of(asked, asked.form)
    form, memory_id, what = asked.form, asked.path["memory_id"], asked.path["act"]
    if what == "edit":
        tags = [tag.strip() for tag in form.get("tags", "").split(",") if tag.strip()]
        texts = (form.get("title", ""), form.get("description", ""), form.get("content", "").replace("\r\n", "\n"))
        decided = await edit(toolbox, memory_id, MemoryChange(*texts, tags, form.get("domain", "")))
    elif what == "withdraw":
        decided = await set_memory_status(toolbox, [memory_id], "archived", WITHDRAWN)
    elif what == "restore":
        decided = await set_memory_status(toolbox, [memory_id], "active")
    elif what == "promote":
        decided = await make_global(toolbox, memory_id)
    elif what == "confirm":
        decided = await vouch(toolbox, memory_id)
    else:
        can = "edited, withdrawn, restored, confirmed, promoted or forgotten"
        raise InputError(f"a memory can be {can}, not {what[:20]!r}")
    return decided_done(asked, decided, back_of(form, f"/memories/{memory_id}"))


DONE = {
    "keep": "kept",
    "edit": "changed",
    "merge": "merged",
    "withdraw": "withdrawn",
    "quarantine": "put in quarantine",
    "restore": "restored",
    "promote": "shown in every project",
    "confirm": "confirmed as your word",
}
"""In words, what each kind of decision did."""


def decided_done(asked: PageRequest, decided: Decision, back: str) -> ActionResult:
    """Return where a decision leads, the report on it, and its undo. Raises `InputError` if it changed nothing."""
    if not decided.id:
        raise InputError(f"nothing to {decided.what}: that is already the case")
    number = len(decided.items)
    title = one_line(decided.items[0].title, 80) if number <= 2 else counted(number, "memory")  # two are a pair
    held = next((item.status_reason for item in decided.items if item.status == "quarantined"), None)
    warning = f" It is now held back: {held}" if held and decided.what == "edit" else ""
    fields = {"id": decided.id, "back": back, "project": asked.form.get("project", "")}
    says = f"{DONE[decided.what].capitalize()}: {title}{warning}"
    return ActionResult(in_project(back, asked.form), says, Undo("/review/undo", fields))


def back_of(given: Mapping[str, str], otherwise: str) -> str:
    """Return the given path to go back to if it is one of ours, else `otherwise`."""
    back = given.get("back", "")
    return back if _BACK.fullmatch(back) else otherwise


def in_project(path: str, given: Mapping[str, str]) -> str:
    """Return a path with the project that a form or an address names."""
    project = given.get("project", "")
    return f"{path}{'&' if '?' in path else '?'}{urlencode({'project': project})}" if project else path


def _changes(former: Version, later: Version) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield each field that was changed, with its lines: whether each is `same`, `gone` or `new`, and its text."""
    one, other = _texts(former), _texts(later)
    for name in (each for each in one if one[each] != other[each]):
        lines: list[tuple[str, str]] = []
        # Only whole lines: comparing within similar lines too, as ndiff does, takes cubic time.
        matcher = SequenceMatcher(None, one[name], other[name], autojunk=False)
        for what, start, end, begin, stop in matcher.get_opcodes():
            lines += [("same" if what == "equal" else "gone", text) for text in one[name][start:end]]
            lines += [("new", text) for text in other[name][begin:stop] if what != "equal"]
        yield name, lines


def _texts(version: Version) -> dict[str, list[str]]:
    texts = version.texts
    return {
        "title": [texts["title"]],
        "description": texts.get("description", "").splitlines(),
        "steps": texts["content"].splitlines(),
        "tags": list(texts.get("tags", ())),
        "domain": [texts["domain"]] if texts.get("domain") else [],
    }


ASK = (Route("/ask", preview),)
ROUTES = (
    Route("/memories", memories),
    Route("/memories", change_list, "POST"),
    Route("/memories/{memory_id}", memory),
    Route("/memories/{memory_id}/edit", partial(form_page, "memory_edit.html")),
    Route("/memories/{memory_id}/forget", partial(form_page, "memory_forget.html"), role="admin"),
    Route("/memories/{memory_id}/forget", forget, "POST", "admin"),
    Route("/memories/{memory_id}/{act}", act, "POST"),
)
