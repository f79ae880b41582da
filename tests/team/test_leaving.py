"""What is no longer the team's leaves the copies: a forgotten person's memories, and what a backup does not contain."""

from pathlib import Path

from postgres_server import BOTH_ENGINES, rows_with

from swarm_memory.schema.team.sharing import team_scope
from swarm_memory.server.storage.care.repair import restore
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.sqlite import SqliteStore
from swarm_memory.tools.team.people import forget_person
from swarm_memory.tools.toolbox import Toolbox
from tests.attacks.attacked_bank import files_with
from tests.team.team_banks import LOGIN, LOGIN_AGAIN, PROJECT, NewHome

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
    known = await dia.toolbox.store.team_cache.cached_ids(dia.toolbox.team[0])
    assert len(known) == 2

    gone = await forget_person(server, "zqannqz")
    assert len(gone.ids) == 1
    await dia.sync()
    (left,) = await dia.toolbox.store.team_cache.cached_ids(dia.toolbox.team[0])
    sharing = (await dia.toolbox.store.team.sharing([left]))[left]
    assert (sharing.proposed_by, sharing.evidence.worked, sharing.evidence.people) == (("cem",), 3, 1)

    assert (await forget_person(server, "zqrobqz")).ids == ()
    await dia.sync()
    assert len(await dia.toolbox.store.team_cache.cached_ids(dia.toolbox.team[0])) == 1
    marks = ("zqannqz", "zqrobqz", ALONE[0])
    if database_url is None:
        assert files_with(tmp_path / "server", *marks) == 0
    else:
        assert rows_with(database_url, *marks) == {}


async def test_who_followed_a_team_further_than_the_backup_that_is_restored_knows_in_the_end_what_the_team_does(
    home: NewHome, server: Toolbox, tmp_path: Path
) -> None:
    ann, rob, dia = await home("ann"), await home("rob", "review"), await home("dia")

    async def share(title: str) -> str:
        return str((await rob.decide(await ann.propose(await ann.learn(title, f"1. {title}, then go on.")))).memory_id)

    kept = await share("Close the pool")
    assert isinstance(server.store, SqliteStore)
    backup = await server.store.back_up()
    lost = {await share("Freeze the clock"), await share("Sort the rows")}
    await dia.sync()
    team = team_scope("default", PROJECT)
    assert await dia.toolbox.store.team_cache.cached_ids(team) == {kept, *lost}
    restore(tmp_path / "server" / "memory.db", backup, choose(), 5.0)
    since = {await share(title) for title in ("Pin the locale", "Warm the cache", "Quote every path")}
    await dia.sync()
    assert await dia.toolbox.store.team_cache.cached_ids(team) == {kept, *since}
