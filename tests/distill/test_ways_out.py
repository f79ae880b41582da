"""Which errors count as ended: by something that was done, seen to work, and not by chance."""

from collections.abc import Callable
from pathlib import Path

import pytest
from scripted_runs import Script, opened

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import WAY_OUT, MemoryDraft, MemoryItem, Provenance
from swarm_memory.schema.settings import Settings
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.tools.distill.distill import distill_by_extraction
from swarm_memory.tools.distill.ways_out import ways_out, ways_out_of
from swarm_memory.tools.judge.judge import judge_by_evidence
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.trajectory.reading import read

NO_MODULE = "ModuleNotFoundError: No module named 'web'"
REFUSED = "error: could not connect to the ledger: connection refused"

FLAKY = "ship: error: the harbour gave no answer"


def ended(script: Script) -> list[list[str]]:
    """The commands of each way out, the failed one first."""
    trajectory = script.done()
    ways = ways_out(read(trajectory))
    return [[call.command.text if call.command else call.tool for call in way.calls] for way in ways]


def test_a_deed_after_which_the_same_call_went_through_is_a_way_out() -> None:
    script = Script("test it").shell("manage test", NO_MODULE, 1).shell("pip install web", "ok")
    assert ended(script) == []
    assert ended(script.shell("manage test", "ok")) == [["manage test", "pip install web", "manage test"]]


def test_what_satisfied_a_test_of_the_agents_own_is_no_way_out_but_what_the_place_wanted_is() -> None:
    script = Script("Write a test of your own and have `sh verify.sh` pass.")
    script.shell("echo 'test -s rows.csv && echo fine' > own_test.sh")
    script.shell("sh verify.sh", "verify: error: rows.csv is empty, convert.sh writes it", 1)
    script.shell("sh convert.sh fast", "written").shell("sh verify.sh", "fine")
    assert ended(script) == []
    script.shell("sh verify.sh", NO_MODULE, 1).shell("pip install web", "ok").shell("sh verify.sh", "fine")
    assert ended(script) == [["sh verify.sh", "pip install web", "sh verify.sh"]]


def test_a_call_that_went_through_otherwise_is_a_way_out() -> None:
    script = Script("ship it").shell("ship deploy --yes", "error: unknown option '--yes'", 2)
    assert ended(script.shell("ship deploy --no-ask", "deployed")) == [["ship deploy --yes", "ship deploy --no-ask"]]


@pytest.mark.parametrize(
    "script",
    [
        Script("nobody knows who put it there").shell("ship sync", NO_MODULE, 1).shell("ship sync", "ok"),
        Script("it passed at the third try, after this and that")
        .shell("ship seed", FLAKY, 1)
        .shell("ship clean", "ok")
        .shell("ship seed", FLAKY, 1)
        .shell("ship init", "ok")
        .shell("ship seed", "seeded"),
        Script("it passed at the third try, once with a deed just before")
        .shell("ship seed", FLAKY, 1)
        .shell("ship seed", FLAKY, 1)
        .shell("ship init", "ok")
        .shell("ship seed", "seeded"),
        Script("it passed at the third try, after something that shares a word with the error")
        .shell("ship seed", FLAKY, 1)
        .shell("ship clean", "ok")
        .shell("ship seed", FLAKY, 1)
        .shell("rm -f harbour.tmp", "")
        .shell("ship seed", "seeded"),
        Script("several things done, and what shares a word with the error need not be the one")
        .shell("ship seed", FLAKY, 1)
        .shell("ship harbour reset", "ok")
        .shell("ship flush", "ok")
        .shell("ship seed", "seeded"),
        Script("a tool that needs what another one did")
        .call("submit_total", {"rows": "all"}, "Error: no ledger rows were read", error=True)
        .call("list_rows", {"page": 1}, "[1, 2]", error=False)
        .call("submit_total", {"rows": "all"}, "saved", error=False),
        Script("ended once by this and once by that")
        .shell("ship seed", FLAKY, 1)
        .shell("ship init", "ok")
        .shell("ship seed", "seeded")
        .shell("ship seed", FLAKY, 1)
        .shell("ship reset", "ok")
        .shell("ship seed", "seeded"),
        Script("another path was meant")
        .shell("shipper pack boxes/a", "shipper: error: boxes/a has no manifest to pack", 1)
        .shell("shipper pack boxes/b", "packed"),
        Script("a deed that cannot be told")
        .shell("ship seed", FLAKY, 1)
        .shell("for f in a b; do ship load $f; done", "ok")
        .shell("ship seed", "seeded"),
        Script("and once more, with a deed between")
        .shell("ship sync", NO_MODULE, 1)
        .shell("ship sync", "ok")
        .shell("pip install web", "ok")
        .shell("ship sync", NO_MODULE, 1)
        .shell("ship sync", "ok"),
        Script("it may have come up by itself")
        .shell("ship sync", REFUSED, 1)
        .shell("ls", "a")
        .shell("cp a b")
        .shell("ship sync", "ok"),
        Script("it never went through").shell("ship sync", NO_MODULE, 1).shell("pip install web", "ok"),
        Script("a fault in the work itself")
        .shell("pytest -q", "E   TypeError: takes 1 argument\n1 failed in 0.1s", 1)
        .edit("/w/shop/cart.py", "def a(x):", "def a(x, y):")
        .shell("pytest -q", "1 passed in 0.1s"),
        Script("another program of its own")
        .shell("python -c 'import web'", NO_MODULE, 1)
        .shell("python -c 'import os'", "ok"),
        Script("a slip with a tool of the host")
        .call("Edit", {"file_path": "/a"}, "Error: string to replace not found in the ledger", error=True)
        .call("Edit", {"file_path": "/a", "x": "1"}, "done", error=False),
        Script("other arguments, nobody knows which")
        .call("submit_total", {"rows": "distinct"}, "Error: no ledger rows were read", error=True)
        .call("submit_total", {"rows": "those of March"}, "taken", error=False),
        Script("code written by a command, and a fault that it mends")
        .shell("ship build", "error: the ledger module is missing a total", 1)
        .shell("ship build", "error: the ledger module is missing a total", 1)
        .shell("sed -i s/sum/total/ ledger.py", "")
        .shell("ship build", "built"),
        Script("an error that says nothing")
        .shell("npm test", "", 1)
        .shell("npm install", "ok")
        .shell("npm test", "ok"),
    ],
    ids=lambda script: script.task,
)
def test_what_was_not_seen_to_end_it_is_none(script: Script) -> None:
    assert ended(script) == []


def drafts(script: Script) -> list[MemoryDraft]:
    trajectory = script.done()
    return list(distill_by_extraction(trajectory, judge_by_evidence(trajectory, Settings()), Settings()).drafts)


def test_what_passes_by_itself_is_told_as_that_and_nothing_that_lay_between_as_its_cure() -> None:
    script = (
        Script("seed it").shell("ship seed", FLAKY, 1).shell("cat ship.log", "waiting").shell("ship seed", FLAKY, 1)
    )
    (draft,) = drafts(script.shell("ship seed", "seeded"))
    assert draft.title == "Run `ship seed` once more when it fails: it may pass by itself"
    assert "It ended so 2 times and then went through" in draft.content
    assert ended(script) == [["ship seed", "ship seed"]]
    again = script.shell("ship init", "ok").shell("ship seed", FLAKY, 1).shell("ship init", "ok")
    (draft,) = drafts(again.shell("ship seed", "seeded"))
    assert "ship init" not in draft.content


def test_what_the_user_did_meanwhile_is_not_taken_for_chance() -> None:
    script = (
        Script("seed it").shell("ship seed", FLAKY, 1).user("I have plugged it in now").shell("ship seed", "seeded")
    )
    assert drafts(script) == []


def test_the_one_thing_done_before_the_same_call_went_through_is_told() -> None:
    script = Script("seed it").shell("ship seed", FLAKY, 1).shell("cat README.md", "Open it first.")
    script.shell("ship open --quay 3", "open").shell("ship seed", "seeded")
    assert ended(script) == [["ship seed", "ship open --quay 3", "ship seed"]]


def test_a_chain_of_errors_is_told_as_one() -> None:
    script = Script("build it").shell("ship build", "ship: fatal error: zlib.h: No such file or directory", 1)
    script.shell("apt-get install -y zlib1g-dev", "ok").shell("ship build", "ship: error: LEDGER_URL is not set", 1)
    script.shell("ship config set LEDGER_URL local", "ok").shell("ship build", "built")
    assert [calls[1] for calls in ended(script)] == [
        "apt-get install -y zlib1g-dev",
        "ship config set LEDGER_URL local",
    ]
    first, second = sorted(drafts(script), key=lambda draft: "zlib" not in draft.title)
    assert "it got past that error, and the next one was " in first.content
    assert "zlib" not in second.content


def test_a_misleading_error_gets_no_cure_from_what_did_not_help() -> None:
    script = Script("test it").shell("manage test", NO_MODULE, 1).shell("pip install web", "ok")
    script.shell("manage test", NO_MODULE, 1).shell(". venv/bin/activate && manage test", "ok")
    (draft,) = drafts(script)
    assert draft.title == "Run `. venv/bin/activate && manage test` (missing module)"
    assert draft.content.splitlines()[-1] == "3. What did not help: `pip install web`."


def test_what_is_part_of_the_call_that_went_through_did_help() -> None:
    script = Script("test it").shell("manage test", NO_MODULE, 1).shell("pip install web", "ok")
    script.shell("manage test", NO_MODULE, 1).shell("cd shop && pip install web && manage test", "ok")
    assert not any("did not help" in draft.content for draft in drafts(script))


def test_a_way_out_is_marked_and_tells_nothing_of_its_task() -> None:
    script = Script("translate the menu of the harbour").shell("manage test", NO_MODULE, 1)
    (draft,) = drafts(script.shell("pip install web", "ok").shell("manage test", "ok"))
    assert WAY_OUT in draft.tags
    assert "harbour" not in draft.description


def test_a_mended_configuration_is_a_way_out() -> None:
    script = Script("ship it").shell("ship sync", "error: LEDGER_URL is not set", 1)
    script.edit("/w/shop/ship.toml", "", 'ledger_url = "local"').shell("ship sync", "ok")
    assert ended(script) == [["ship sync", "Edit", "ship sync"]]


def test_the_code_that_a_tool_took_is_a_way_out() -> None:
    refused = "Error: validation error: field 'severity_code' must be one of the list"
    script = Script("open a ticket").call("create_ticket", {"severity_code": "high"}, refused, error=True)
    assert ended(script.call("create_ticket", {"severity_code": "S2"}, "ticket 7", error=False)) == [
        ["create_ticket", "create_ticket"]
    ]


def test_what_may_pass_with_time_needs_a_repetition_that_failed_as_well() -> None:
    script = Script("sync it").shell("ship sync", REFUSED, 1).shell("ship sync", REFUSED, 1)
    script.shell("systemctl start ledger", "").shell("ship sync", "ok")
    assert ended(script) == [["ship sync", "systemctl start ledger", "ship sync"]]


@pytest.fixture
def drawn() -> Callable[..., MemoryItem]:
    def make(*evidence: str, **fields: object) -> MemoryItem:
        given = {"distiller": "extractive", **{name: fields[name] for name in fields if name == "distiller"}}
        return MemoryItem.model_validate(
            {
                "id": "rm_" + "0" * 26,
                "scope": Scope(project="shop"),
                "title": "Install web",
                "content": "1. Install it.",
                "tags": fields.get("tags", ("repair",)),
                "confidence": 0.5,
                "created_at": "2026-03-01T12:00:00Z",
                "provenance": Provenance.model_validate({"evidence": evidence, **given}),
            }
        )

    return make


def test_a_memory_tells_a_way_out_when_it_rests_on_its_calls_and_little_else(drawn: Callable[..., MemoryItem]) -> None:
    script = Script("test it").shell("manage test", NO_MODULE, 1).shell("pip install web", "ok")
    trajectory = script.shell("manage test", "ok").done()
    failed, deed, success = (call.step.id for call in read(trajectory).calls)
    others = tuple(f"x{number}" for number in range(12))

    def tells(item: MemoryItem) -> bool:
        return bool(ways_out_of(trajectory, [(item.id, item)]))

    assert tells(drawn(failed, deed, success))
    assert not tells(drawn(failed, deed, success, tags=()))
    assert not tells(drawn(deed, failed, success))
    assert tells(drawn(success, deed, failed, distiller="model", tags=()))
    assert not tells(drawn(success, failed, distiller="model"))
    assert not tells(drawn(failed, deed, success, *others, distiller="model"))
    assert ways_out_of(trajectory, []) == ()


def refused(task: str, stage: str, *deeds: str) -> Script:
    """A task in which `ship out` was refused before each deed, and once more at the end."""
    script = Script(task, task_id=stage)
    for deed in deeds:
        script.shell(f"ship out {stage}", f"ship: error: the crate for {stage} is not closed", 4).shell(deed, "ok")
    return script


async def test_two_things_done_in_order_are_told_where_the_error_was_seen_to_stay_else(tmp_path: Path) -> None:
    """A thing that passes by itself at the third try looks the same, but nowhere fails four times."""
    solved = refused("ship it out to the lab with `ship out lab`", "lab", "ship fold", "ship lid")
    solved.shell("ship out lab", "shipped to lab").say("Shipped.")
    open_one = refused("ship it to the plant with `ship out plant`", "plant", "ship weigh", "ship wash", "ship weigh")
    open_one.shell("ship out plant", "ship: error: the crate for plant is not closed", 4).say("I could not ship it.")
    async with opened(tmp_path, StaticEmbedder()) as (tools, _):
        assert (await learn(tools, solved.done())).stored == ()
        assert (await learn(tools, open_one.done())).verdict.label == "Failure"
        again = solved.done().model_copy(update={"task_id": "again"})
        (item,) = (await learn(tools, again)).stored
        assert item.title == "Run `ship fold`, then `ship lid` before `ship`"
        assert item.content.splitlines()[1:] == [
            "2. Run `ship fold`.",
            "3. Run `ship lid`.",
            "4. Run `ship out lab` again: after that it succeeded.",
            "5. After the first of these alone it failed again.",
        ]
        (signature,) = {call.signature for call in read(again).calls if call.signature}
        (way,) = await tools.store.known_ways(tools.scope, [signature.digest])
        assert (way.memory_id, way.worked, way.tried) == (item.id, 1, 1)


async def test_two_things_after_one_failure_are_told_where_the_error_stayed_through_many_calls(tmp_path: Path) -> None:
    solved = Script("ship it out to the lab with `ship out lab`", task_id="lab")
    solved.shell("ship out lab", "ship: error: the crate for lab is not closed", 4).shell("ship fold", "ok")
    solved.shell("ship lid", "ok").shell("ship out lab", "shipped to lab").say("Shipped.")
    twice = refused("ship it to the plant with `ship out plant`", "plant", "ship weigh")
    often = refused("ship it to the docks with `ship out docks`", "docks", "ship weigh", "ship wash", "ship weigh")
    async with opened(tmp_path, StaticEmbedder()) as (tools, bank):
        for open_one, stage in ((twice, "plant"), (often, "docks")):
            assert (await learn(tools, solved.done())).stored == ()
            open_one.shell(f"ship out {stage}", f"ship: error: the crate for {stage} is not closed", 4).say(
                "I could not."
            )
            (problem,) = (await learn(tools, open_one.done())).stored
            assert [item.id for item in await bank.items()] == [problem.id], "the one that lasted longer is kept"
            solved.task_id = f"lab after {stage}"
        (item,) = (await learn(tools, solved.done())).stored
        assert item.title == "Run `ship fold`, then `ship lid` before `ship`"
        assert item.content.splitlines()[-1] == "5. Nobody tried whether one of them would do."


def test_what_fits_the_error_and_did_not_help_alone_is_told_before_what_did() -> None:
    script = Script("seed the shop").shell("manage seed", "OperationalError: no such table: crates", 1)
    script.shell("manage makemigrations", "ok").shell("manage seed", "OperationalError: no such table: crates", 1)
    (draft,) = drafts(script.shell("manage migrate", "ok").shell("manage seed", "seeded").say("Seeded."))
    assert draft.title == "Run `manage makemigrations`, then `manage migrate` before `manage`"
    assert "did not help" not in draft.content


def test_each_error_of_a_chain_is_told_with_what_ended_the_next() -> None:
    script = Script("push the shop").shell("ship push", "ship: error: the manifest has no owner", 4)
    script.shell("ship own me", "ok").shell("ship push", "ship: error: a seal is wanted on it", 4)
    script.shell("ship glue", "ok").shell("ship push", "pushed").say("Pushed.")
    first, second = sorted(drafts(script), key=lambda draft: draft.evidence)
    assert first.title == "Run `ship own me` before `ship`"
    assert first.content.splitlines()[-1] == "4. Past that one: `ship glue`."
    assert second.title == "Run `ship glue` before `ship`"


def test_after_two_things_in_vain_the_one_that_was_done_since_the_last_failure_is_told() -> None:
    script = refused("ship it out to the lab", "lab", "ship wash", "ship weigh", "ship fold")
    script.shell("ship out lab", "shipped to lab").say("Shipped.")
    assert ended(script) == [["ship out lab", "ship fold", "ship out lab"]]
    (draft,) = drafts(script)
    assert draft.title == "Run `ship fold` before `ship`"
    assert draft.content.splitlines()[-1] == "4. What did not help: `ship wash`, `ship weigh`."
    two_left = refused("ship it out to the lab", "lab", "ship wash", "ship weigh", "ship fold").shell("ship lid", "ok")
    assert ended(two_left.shell("ship out lab", "shipped to lab")) == []


def test_what_was_in_vain_alone_and_then_ended_it_is_told_with_what_came_between() -> None:
    script = refused("ship it out to the lab", "lab", "ship lid", "ship fold", "ship lid")
    assert ended(script.shell("ship out lab", "shipped to lab")) == [
        ["ship out lab", "ship fold", "ship lid", "ship out lab"]
    ]


def test_at_the_third_call_only_the_program_that_the_error_names_is_told() -> None:
    def ended_by(deed: str) -> Script:
        script = Script("seed the shop").shell("sh seed.sh", FLAKY, 1).shell("sh broom.sh", "ok")
        return script.shell("sh seed.sh", FLAKY, 1).shell(deed, "ok").shell("sh seed.sh", "seeded")

    assert ended(ended_by("sh harbour.sh open")) == [["sh seed.sh", "sh harbour.sh open", "sh seed.sh"]]
    assert ended(ended_by("sh quay.sh open")) == []
