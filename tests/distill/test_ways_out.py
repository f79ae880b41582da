"""Which errors count as ended: by something that was done, seen to work, and not by chance."""

from collections.abc import Callable

import pytest
from scripted_runs import Script

from swarm_memory.schema.base import Scope
from swarm_memory.schema.memory import MemoryItem, Provenance
from swarm_memory.tools.distill.ways_out import ways_out, ways_out_of
from swarm_memory.tools.trajectory.reading import read

NO_MODULE = "ModuleNotFoundError: No module named 'web'"
REFUSED = "error: could not connect to the ledger: connection refused"


def ended(script: Script) -> list[list[str]]:
    """The commands of each way out, the failed one first."""
    trajectory = script.done()
    ways = ways_out(read(trajectory))
    return [[call.command.text if call.command else call.tool for call in way.calls] for way in ways]


def test_a_deed_after_which_the_same_call_went_through_is_a_way_out() -> None:
    script = Script("test it").shell("manage test", NO_MODULE, 1).shell("pip install web", "ok")
    assert ended(script) == []
    assert ended(script.shell("manage test", "ok")) == [["manage test", "pip install web", "manage test"]]


def test_a_call_that_went_through_otherwise_is_a_way_out() -> None:
    script = Script("ship it").shell("ship deploy --yes", "error: unknown option '--yes'", 2)
    assert ended(script.shell("ship deploy --no-ask", "deployed")) == [["ship deploy --yes", "ship deploy --no-ask"]]


@pytest.mark.parametrize(
    "script",
    [
        Script("a step that passes by itself").shell("ship sync", NO_MODULE, 1).shell("ship sync", "ok"),
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


def test_a_memory_tells_a_way_out_when_it_rests_on_its_calls_and_little_else(
    drawn: Callable[..., MemoryItem],
) -> None:
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
