"""Somebody of a team is forgotten: what they alone proposed goes everywhere, what others proposed too stays."""

from pathlib import Path

from attacked_bank import files_with
from postgres_server import BOTH_ENGINES, rows_with
from team_banks import LOGIN, LOGIN_AGAIN, NewHome

from swarm_memory.tools.team.people import forget_person
from swarm_memory.tools.toolbox import Toolbox

ALONE = ("Close the pool before the fork", "1. Close the pool of connections.\n2. Fork the workers.")


@BOTH_ENGINES
async def test_what_somebody_alone_proposed_goes_and_what_others_vouch_for_stays_without_their_name(
    home: NewHome, server: Toolbox, tmp_path: Path, database_url: str | None
) -> None:
    ann, rob, cem, dia = await home("zqannqz"), await home("zqrobqz", "review"), await home("cem"), await home("dia")
    both, other = await ann.learn(*LOGIN), await cem.learn(*LOGIN_AGAIN)
    for task in range(3):
        await ann.tried(both, f"a{task}", worked=True)
        await cem.tried(other, f"c{task}", worked=True)
    shared, alone = await ann.propose(both), await ann.propose(await ann.learn(*ALONE))
    await cem.propose(other)
    await rob.decide(shared)
    await rob.decide(alone)
    await dia.sync()
    known = await dia.toolbox.store.team.newest(dia.toolbox.team[0], None, 9)
    assert len(known) == 2

    gone = await forget_person(server, "zqannqz")
    assert len(gone.memories.ids) == 1
    await dia.sync()
    (left,) = await dia.toolbox.store.team.newest(dia.toolbox.team[0], None, 9)
    sharing = (await dia.toolbox.store.team.sharing([left]))[left]
    assert (sharing.proposed_by, sharing.evidence.worked, sharing.evidence.people) == (("cem",), 3, 1)

    assert (await forget_person(server, "zqrobqz")).memories.ids == ()
    await dia.sync()
    assert len(await dia.toolbox.store.team.newest(dia.toolbox.team[0], None, 9)) == 1
    marks = ("zqannqz", "zqrobqz", ALONE[0])
    if database_url is None:
        assert files_with(tmp_path / "server", *marks) == 0
    else:
        assert rows_with(database_url, *marks) == {}
