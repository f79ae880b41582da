"""A memory that names something the project no longer has is ranked lower, with a remark, or not shown at all."""

import json
import sqlite3
import time
from dataclasses import replace
from pathlib import Path

import pytest
from still_bank import Add

from swarm_memory.schema.memory import Provenance
from swarm_memory.server.project.folder import ProjectFolder
from swarm_memory.tools.anchors import staleness
from swarm_memory.tools.memories.remember import remember
from swarm_memory.tools.retrieve.at_moment import at_start
from swarm_memory.tools.retrieve.rank import GONE_PENALTY
from swarm_memory.tools.retrieve.retrieve import Unasked, explain, retrieve
from swarm_memory.tools.toolbox import Toolbox

QUERY = "How do I run the checks of the payment service?"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait longer, so that a busy machine does not make a test fail."""
    monkeypatch.setattr(staleness, "LOOK_S", 10.0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "Makefile").write_text("checks:\n\tpytest\n")
    return folder


@pytest.fixture
def here(toolbox: Toolbox, root: Path) -> Toolbox:
    return replace(toolbox, project=ProjectFolder(root))


def anchored(*anchors: str) -> Provenance:
    return Provenance(anchors=anchors)


async def shown(toolbox: Toolbox) -> list[str]:
    return [each.item.id for each in (await retrieve(toolbox, QUERY, unasked=Unasked())).memories]


async def test_a_memory_is_shown_while_what_it_names_is_there_and_no_more_when_all_of_it_is_gone(
    here: Toolbox, root: Path, add: Add
) -> None:
    first = await add("Run the checks of the payment service by make checks", provenance=anchored("script:make checks"))
    second = await add("The checks of the payment service need a database")
    assert await shown(here) == [first, second]
    (root / "Makefile").write_text("test:\n\tpytest\n")
    assert await shown(here) == [second]
    elsewhere = replace(here, scope=here.scope.model_copy(update={"project": "elsewhere"}))
    assert await shown(elsewhere.in_project(here.scope.project)) == [first, second], "its own folder says nothing"
    (considered,) = [each for each in (await explain(here, QUERY)).considered if each.memory.item.id == first]
    assert considered.why == "everything it names is gone from the project: make checks"


async def test_of_what_lost_a_part_the_rest_is_shown_lower_and_with_a_word(here: Toolbox, root: Path, add: Add) -> None:
    half = await add(
        "Run the checks of the payment service with make checks and run_checks.py",
        provenance=anchored("script:make checks", "file:run_checks.py"),
    )
    found = await retrieve(here, QUERY)
    assert [each.item.id for each in found.memories] == [half]
    assert "(run_checks.py is no longer in this project)" in found.preamble
    (root / "run_checks.py").write_text("")
    whole = await retrieve(here, QUERY)
    assert "no longer" not in whole.preamble
    assert whole.memories[0].score - found.memories[0].score == pytest.approx(GONE_PENALTY / 2, abs=0.02)


async def test_what_the_user_said_is_shown_whatever_is_gone(here: Toolbox, root: Path) -> None:
    said = await remember(here, "The checks of the payment service are run by `make checks`", by_hand=True)
    assert said.item.provenance.anchors == ("script:make checks",)
    (root / "Makefile").unlink()
    found = await retrieve(here, QUERY)
    assert [each.item.id for each in found.memories] == [said.item.id]
    assert "(make checks is no longer in this project)" in found.preamble


async def test_a_sessions_start_does_not_list_what_is_gone(here: Toolbox, add: Add) -> None:
    there = anchored("script:make checks").model_copy(update={"distiller": "agent"})
    kept = await add("The checks", description="Running the checks.", provenance=there)
    gone = anchored("script:make old").model_copy(update={"distiller": "agent"})
    await add("The old checks", description="Running the old checks.", provenance=gone)
    assert [each.id for each in await at_start(here, ())] == [kept]


async def test_the_record_of_a_retrieval_says_what_was_gone(here: Toolbox, add: Add, tmp_path: Path) -> None:
    gone = await add("The checks of the payment service", provenance=anchored("script:make old"))
    found = await retrieve(here, QUERY)
    assert [(each.fits, each.changed) for each in found.memories] == [
        ("unlikely", "make old is no longer in this project")
    ]
    await here.store.close()
    with sqlite3.connect(tmp_path / ".swarm" / "memory.db") as bank:
        (data,) = bank.execute("SELECT data FROM events WHERE subject_id = ?", (found.retrieval_id,)).fetchone()
    assert json.loads(data)["gone"] == {gone: "make old"}


async def test_a_folder_that_does_not_answer_hides_nothing(
    here: Toolbox, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staleness, "LOOK_S", 0.01)

    class Stuck(ProjectFolder):
        def has(self, anchor: str) -> bool:
            time.sleep(0.2)
            return False

    there = await add("The checks of the payment service", provenance=anchored("script:make old"))
    assert await shown(replace(here, project=Stuck(Path("/nowhere")))) == [there]
