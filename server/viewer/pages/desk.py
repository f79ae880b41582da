"""The desk: what wants a decision, with the reason and both texts; each decision but forgetting can be taken back."""

from swarm_memory.schema.errors import InputError
from swarm_memory.server.viewer.page import Asked, Done, Page, Route
from swarm_memory.server.viewer.pages.memories import WITHDRAWN, back_of, decided_done, in_project, of_project
from swarm_memory.server.viewer.pages.proposals import proposals
from swarm_memory.tools.memories.decide import keep, merge, set_memory_status, undo
from swarm_memory.tools.memories.desk import KINDS, desk, latest_decisions

PER_PAGE = 10


async def cards(asked: Asked) -> Page:
    """Show what waits of one kind: of that which is asked for, else of the first of which something waits.

    Where nothing but proposals of the team waits, these are shown.
    """
    toolbox, project = of_project(asked, asked.query)
    asked_for = asked.query.get("kind") or None
    if asked_for not in (None, *KINDS):
        raise InputError(f"kind is one of {', '.join(KINDS)}")
    counts, kind, found = await desk(toolbox, asked_for, limit=PER_PAGE, offset=(asked.page - 1) * PER_PAGE)
    proposed = await toolbox.store.team.count_waiting(toolbox.scope.tenant_id)
    if proposed and asked_for is None and not counts.total():
        return await proposals(asked)
    return Page(
        "desk.html",
        {
            "counts": {each: counts[each] for each in KINDS},
            "kind": kind,
            "cards": found,
            "page": asked.page,
            "has_more": counts[kind] > asked.page * PER_PAGE,
            "kept": {"kind": kind, **project},
            "back": f"/desk?kind={kind}",
            "decided": await latest_decisions(toolbox),
            "proposed": proposed,
            "project_query": project,
        },
    )


async def decide(asked: Asked) -> Done:
    """Decide what was posted about one card."""
    toolbox, _ = of_project(asked, asked.form)
    form, what = asked.form, asked.path["what"]
    one, other = form.get("id", ""), form.get("other", "")
    if what == "keep":
        decided = await keep(toolbox, one, form.get("why", ""), other or None)
    elif what == "merge":
        decided = await merge(toolbox, one, other)
    elif what == "withdraw":
        decided = await set_memory_status(toolbox, [one], "archived", WITHDRAWN)
    elif what == "undo":
        decided = await undo(toolbox, one)
        return Done(in_project(back_of(form, "/desk"), form), f"Taken back: {decided.what}")
    else:
        raise InputError(f"a card is kept, merged, withdrawn or taken back, not {what[:20]!r}")
    return decided_done(asked, decided, back_of(form, "/desk"))


ROUTES = (Route("/desk", cards), Route("/desk/{what}", decide, "POST"))
