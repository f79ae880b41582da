"""The desk of a team: what people propose, accepted as it is or with other words, declined with a word, taken back."""

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.team.sharing import Decided
from swarm_memory.server.viewer.access import Undo
from swarm_memory.server.viewer.page import Asked, Done, Page, Route
from swarm_memory.tools.ports.team import ProposalFilter
from swarm_memory.tools.team.bank import TeamBank, edited

PER_PAGE = 10
LATEST = ProposalFilter(("accepted", "declined"), limit=20, leading=True, newest=True)


async def proposals(asked: Asked) -> Page:
    """Show what waits, oldest first, and what was decided lately."""
    store, tenant = asked.toolbox.store.team, asked.toolbox.scope.tenant_id
    which = ProposalFilter(limit=PER_PAGE, offset=(asked.page - 1) * PER_PAGE, leading=True)
    waiting = await store.count_waiting(tenant)
    return Page(
        "proposals.html",
        {
            "waiting": waiting,
            "cards": [await store.get_proposal(tenant, each.id) for each in await store.proposals(tenant, which)],
            "decided": await store.proposals(tenant, LATEST),
            "page": asked.page,
            "has_more": waiting > asked.page * PER_PAGE,
        },
    )


async def decide(asked: Asked) -> Done:
    """Decide about one proposal; texts that were changed on its card are those that are accepted."""
    form, act = asked.form, asked.path["act"]
    proposal_id, word = form.get("id", ""), form.get("word", "")[:500]
    team = TeamBank(asked.toolbox, asked.toolbox.person)
    if act == "accept":
        draft = await _changed(asked, proposal_id)
        found = await team.decide(proposal_id, Decided(act="edit" if draft else "accept", word=word, draft=draft))
    elif act == "decline":
        found = await team.decide(proposal_id, Decided(act="decline", word=word))
    elif act == "undo":
        found = await team.decide(proposal_id, Decided(act="undo"))
        return Done("/proposals", f"It waits again: {found.draft.title}")
    else:
        raise InputError(f"a proposal is accepted, declined or taken back, not {act[:20]!r}")
    told = f"{found.status.capitalize()}: {found.draft.title}"
    return Done("/proposals", told, Undo("/proposals/undo", {"id": found.id}))


async def _changed(asked: Asked, proposal_id: str) -> MemoryDraft | None:
    """Return the words of a card where they are not those of its proposal."""
    found = await asked.toolbox.store.team.get_proposal(asked.toolbox.scope.tenant_id, proposal_id)
    given = {name: asked.form[name] for name in ("title", "description", "content") if name in asked.form}
    if found is None or not given:
        return None
    draft = edited([found[0]], proposal_id, {name: text.replace("\r\n", "\n") for name, text in given.items()})
    return None if draft == found[0].draft else draft


ROUTES = (Route("/proposals", proposals), Route("/proposals/{act}", decide, "POST"))
