"""Review: what waits for a decision, in the bank and among proposals; all but forgetting can be undone."""

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.team.sharing import Ruling
from swarm_memory.server.viewer.page import ActionResult, Page, PageRequest, Route, Undo
from swarm_memory.server.viewer.pages.memories import DONE, WITHDRAWN, back_of, decided_done, in_project, toolbox_of
from swarm_memory.tools.memories.decide import KINDS, keep, latest_decisions, merge, set_memory_status, to_review, undo
from swarm_memory.tools.ports.team import ProposalFilter
from swarm_memory.tools.team.bank import TeamBank, edited

PER_PAGE = 10
LATEST = ProposalFilter(("accepted", "declined"), limit=20, leading=True, newest=True)


async def cards(asked: PageRequest) -> Page:
    """Show what waits of one kind: of the requested kind, else of the first of which something waits.

    Where only proposals to the team wait, these are shown.
    """
    toolbox, project = toolbox_of(asked, asked.query)
    asked_for = asked.query.get("kind") or None
    if asked_for not in (None, *KINDS):
        raise InputError(f"kind must be one of {', '.join(KINDS)}")
    counts, kind, found = await to_review(toolbox, asked_for, limit=PER_PAGE, offset=(asked.page - 1) * PER_PAGE)
    proposed = await toolbox.store.team.count_waiting(toolbox.scope.tenant_id)
    if proposed and asked_for is None and not counts.total():
        return await proposals(asked)
    return Page(
        "review.html",
        {
            "counts": {each: counts[each] for each in KINDS},
            "kind": kind,
            "cards": found,
            "page": asked.page,
            "has_more": counts[kind] > asked.page * PER_PAGE,
            "kept": {"kind": kind, **project},
            "back": f"/review?kind={kind}",
            "decided": await latest_decisions(toolbox),
            "done": DONE,
            "proposed": proposed,
            "project_query": project,
        },
    )


async def decide(asked: PageRequest) -> ActionResult:
    """Carry out the decision that was posted about one card."""
    toolbox, _ = toolbox_of(asked, asked.form)
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
        return ActionResult(in_project(back_of(form, "/review"), form), f"Undone: {decided.what}")
    else:
        raise InputError(f"a card can be kept, merged, withdrawn or undone, not {what[:20]!r}")
    return decided_done(asked, decided, back_of(form, "/review"))


async def proposals(asked: PageRequest) -> Page:
    """Show the proposals that wait, oldest first, and those decided lately."""
    store, tenant = asked.toolbox.store.team, asked.toolbox.scope.tenant_id
    which = ProposalFilter(limit=PER_PAGE, offset=(asked.page - 1) * PER_PAGE, leading=True)
    waiting = await store.count_waiting(tenant)
    return Page(
        "proposals.html",
        {
            "cards": [await store.get_proposal(tenant, each.id) for each in await store.proposals(tenant, which)],
            "decided": await store.proposals(tenant, LATEST),
            "page": asked.page,
            "has_more": waiting > asked.page * PER_PAGE,
        },
    )


async def decide_proposal(asked: PageRequest) -> ActionResult:
    """Decide about one proposal; if texts were changed on its card, they are accepted as changed."""
    form, act = asked.form, asked.path["act"]
    proposal_id, word = form.get("id", ""), form.get("word", "")[:500]
    team = TeamBank(asked.toolbox, asked.toolbox.person)
    if act == "accept":
        proposed = await asked.toolbox.store.team.get_proposal(asked.toolbox.scope.tenant_id, proposal_id)
        given = {name: form[name].replace("\r\n", "\n") for name in ("title", "description", "content") if name in form}
        draft = edited(proposed[0].draft, given) if proposed and given else None
        if proposed and draft == proposed[0].draft:  # nothing was changed
            draft = None
        typed = draft is not None or (bool(given) and "although_suspect" in form)
        decided = Ruling(act="edit" if draft else "accept", word=word, draft=draft, although_suspect=typed)
        found = await team.decide(proposal_id, decided)
    elif act == "decline":
        found = await team.decide(proposal_id, Ruling(act="decline", word=word))
    elif act == "undo":
        found = await team.decide(proposal_id, Ruling(act="undo"))
        return ActionResult("/proposals", f"Waiting again: {found.draft.title}")
    else:
        raise InputError(f"a proposal can be accepted, declined or undone, not {act[:20]!r}")
    undo = Undo("/proposals/undo", {"id": found.id})
    return ActionResult("/proposals", f"{found.status.capitalize()}: {found.draft.title}", undo)


ROUTES = (
    Route("/review", cards),
    Route("/desk", cards),  # its former address
    Route("/review/{what}", decide, "POST"),
)
PROPOSALS = (Route("/proposals", proposals), Route("/proposals/{act}", decide_proposal, "POST"))
