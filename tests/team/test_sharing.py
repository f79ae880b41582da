"""What is proposed, reviewed, shared, pulled and confirmed: on real banks, without a network."""

from pathlib import Path

import pytest
from postgres_server import BOTH_ENGINES

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.team.sharing import Evidence, ItemEvidence, team_scope
from swarm_memory.tools.memories.decide import MemoryChange, edit, set_memory_status
from swarm_memory.tools.memories.manage import forget_memories
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox
from tests.team.team_banks import LOGIN, LOGIN_AGAIN, PROJECT, NewHome

TEAM = team_scope("default", PROJECT)
pytestmark = BOTH_ENGINES


async def preamble(toolbox: Toolbox) -> str:
    return (await retrieve(toolbox, "login fails without the CSRF token in the form", k=5)).preamble


async def test_the_task_that_a_memory_was_met_in_stays_on_the_machine(home: NewHome) -> None:
    ann = await home("ann")
    met = 'Of use when the form fails. Met in a task such as: "Fix the login of Anna".'
    proposal = await ann.propose(await ann.learn(*LOGIN, description=met))
    assert proposal.draft.description == "Of use when the form fails."


async def test_what_several_people_propose_becomes_one_with_the_evidence_of_all(
    home: NewHome, server: Toolbox, tmp_path: Path
) -> None:
    ann, rob, cem, dia = await home("ann"), await home("rob", "review"), await home("cem"), await home("dia")
    first, second = await ann.learn(*LOGIN), await cem.learn(*LOGIN_AGAIN)
    for task in range(5):
        await ann.tried(first, f"a{task}", worked=task > 0)
        await cem.tried(second, f"c{task}", worked=True)
    proposal, other = await ann.propose(first), await cem.propose(second)
    assert other.same_as == proposal.id
    assert [each.id for each in await rob.server.proposals()] == [proposal.id], "one card for both"
    await rob.decide(proposal)
    later = await dia.propose(await dia.learn(*LOGIN))
    assert (later.status, later.memory_id) == ("accepted", *await server.store.team_cache.cached_ids(TEAM))
    for each in (ann, cem, dia):
        await each.sync()
    assert f"{LOGIN[0]} (the team's; worked 9 of 10 times for 2 people)" in await preamble(dia.toolbox)
    assert (await preamble(ann.toolbox)).count("CSRF token with") == 1, "one's own that says the same comes once"
    known = await dia.toolbox.store.team.sharing([str(later.memory_id)])
    assert known[str(later.memory_id)].proposed_by == ("ann", "cem", "dia")


async def test_sending_the_same_again_changes_nothing(home: NewHome, server: Toolbox) -> None:
    ann, rob = await home("ann"), await home("rob", "review")
    own = await ann.learn(*LOGIN)
    await ann.tried(own, "a1", worked=True)
    proposal = await ann.propose(own)
    assert await ann.propose(own) == proposal
    memory_id = str((await rob.decide(proposal)).memory_id)
    for _ in range(3):
        await ann.sync()
    evidence = (await server.store.team.sharing([memory_id]))[memory_id].evidence
    assert (evidence.worked, evidence.tried, evidence.people) == (1, 1, 1)
    before = await ann.server.changes(PROJECT, "", 0)
    await ann.sync()
    assert (await ann.server.changes(PROJECT, "", 0)).cursor == before.cursor


async def test_what_fails_for_many_withdraws_itself_and_a_reviewer_may_restore_it(
    home: NewHome, server: Toolbox
) -> None:
    ann, rob, cem = await home("ann"), await home("rob", "review"), await home("cem")
    memory_id = str((await rob.decide(await ann.propose(await ann.learn(*LOGIN)))).memory_id)
    for each in (ann, cem):
        await each.sync()
        for task in range(9):
            await each.tried(memory_id, f"t{task}", worked=task == 0)
    await ann.sync()
    assert LOGIN[0] in await preamble(cem.toolbox), "one person alone withdraws nothing"
    await cem.sync()
    (item,) = await server.store.get_memories((TEAM,), [memory_id])
    assert item.status == "archived"
    assert "worked 2 of 18 times for 2 people" in str(item.status_reason)
    await ann.sync()
    assert "the team's" not in await preamble(ann.toolbox), "only one's own is left"
    assert await set_memory_status(rob.server.toolbox.in_project(TEAM.project), [memory_id], "active")
    await cem.sync()
    assert "the team's" in await preamble(cem.toolbox)
    await cem.tried(memory_id, "t99", worked=False)
    await cem.sync()
    (item,) = await server.store.get_memories((TEAM,), [memory_id])
    assert item.status == "active", "what was known when it was restored does not count again"


async def test_edited_withdrawn_and_forgotten_words_reach_everybody_and_an_undone_decision_too(
    home: NewHome, server: Toolbox
) -> None:
    ann, rob, cem = await home("ann"), await home("rob", "review"), await home("cem")
    proposal = await ann.propose(await ann.learn(*LOGIN))
    words = MemoryDraft(title="Send the CSRF token with every form", content=LOGIN[1])
    memory_id = str((await rob.decide(proposal, "edit", draft=words)).memory_id)
    await cem.sync()
    assert words.title in await preamble(cem.toolbox)
    there = rob.server.toolbox.in_project(TEAM.project)
    await edit(there, memory_id, MemoryChange(title="Send the CSRF token along"))
    await cem.sync()
    assert "Send the CSRF token along (the team's)" in await preamble(cem.toolbox)
    await rob.decide(proposal, "undo")
    await cem.sync()
    assert "the team's" not in await preamble(cem.toolbox)
    assert (await rob.decide(proposal)).memory_id == memory_id
    await cem.sync()
    assert LOGIN[0] in await preamble(cem.toolbox)
    await forget_memories(there, [memory_id])
    await cem.sync()
    assert await cem.toolbox.store.get_memories(cem.toolbox.readable, [memory_id]) == []


async def test_a_declined_proposal_says_why_and_comes_back_only_with_other_words(home: NewHome) -> None:
    ann, rob = await home("ann"), await home("rob", "review")
    own = await ann.learn(*LOGIN)
    proposal = await ann.propose(own)
    await rob.decide(proposal, "decline", word="only true for the old form")
    await ann.sync()
    (sent,) = (await ann.toolbox.store.team_cache.sent(ann.toolbox.scope, "https://memory.acme.example")).values()
    assert (sent.proposal.status, sent.proposal.decision) == ("declined", "only true for the old form")
    assert (await ann.propose(own)).status == "declined"
    await edit(ann.toolbox, own, MemoryChange(title="Send the CSRF token of the old form"))
    assert (await ann.propose(own)).status == "waiting"
    with pytest.raises(InputError, match="not waiting"):
        await rob.decide(proposal, "undo")


async def test_a_cache_is_changed_on_the_server_alone(home: NewHome) -> None:
    ann, rob = await home("ann"), await home("rob", "review")
    memory_id = str((await rob.decide(await ann.propose(await ann.learn(*LOGIN)))).memory_id)
    await ann.sync()
    with pytest.raises(InputError, match="is the team's"):
        await edit(ann.toolbox, memory_id, MemoryChange(title="Other words"))
    there = ann.server.toolbox.in_project(TEAM.project)
    with pytest.raises(InputError, match="review is needed"):
        await edit(there, memory_id, MemoryChange(title="Other words"))


async def test_a_recreated_server_leaves_nothing_of_the_former_one(home: NewHome, server: Toolbox) -> None:
    ann, rob, cem = await home("ann"), await home("rob", "review"), await home("cem")
    memory_id = str((await rob.decide(await ann.propose(await ann.learn(*LOGIN)))).memory_id)
    await cem.sync()
    changes = await cem.server.changes(PROJECT, "", 0)
    of_another = changes.model_copy(update={"stamp": "of another", "cursor": 7, "shared": ()})
    await cem.toolbox.store.team_cache.take_in(cem.toolbox.scope, PROJECT, of_another, [], "")
    await forget_memories(server.in_project(TEAM.project), [memory_id])
    await cem.sync()
    assert await cem.toolbox.store.team_cache.cached_ids(TEAM) == set()


async def test_evidence_about_what_is_not_shared_is_passed_over(home: NewHome) -> None:
    ann = await home("ann")
    own = await ann.learn(*LOGIN)
    await ann.server.send_evidence("b1", [ItemEvidence(memory_id=own, evidence=Evidence(worked=3, tried=3))])
    assert await ann.server.toolbox.store.team.sharing([own]) == {}
