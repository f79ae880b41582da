"""What is in most tasks of a project is left out of a query; in a project of few tasks nothing is."""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.consolidate.consolidate import consolidate
from swarm_memory.tools.retrieve.query import LEAST_TASKS, common_words, own_words
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

Add = Callable[..., Awaitable[str]]

ROLE = (
    "You are a careful senior engineer in a container with the repository at /workspace. Read the files that you need "
    "before you change any of them, and never ask the user to run a command.\nWrite the patch, then finish with a "
    "summary of every file you touched and why.\nIssue:\n"
)
THINGS = ("invoice", "parcel", "mailbox", "calendar", "thumbnail", "coupon", "glossary", "timer")
FAULTS = ("is empty after a restart", "shows yesterday's date", "cannot be deleted twice", "loses its colour")
TASKS = [f"{ROLE}The {thing} {fault}." for thing in THINGS for fault in FAULTS]
LOGIN = ("Handle login flows with CSRF tokens", "1. Load the page and parse the token.\n2. Attach it to the POST.")


async def did(toolbox: Toolbox, tasks: Sequence[str]) -> None:
    for number, task in enumerate(tasks):
        done = Trajectory(task_id=f"t{number}", task=task, steps=())
        verdict = Verdict(label="Undecided", confidence=0.1, judge="evidence", reasons=("nothing shows it",))
        await toolbox.store.save_verdict(toolbox.scope, f"tr{number}", done, verdict)


def test_words_of_most_tasks_are_common_and_those_of_a_few_tasks_never() -> None:
    common = common_words(TASKS)
    assert {"engin", "repositori", "patch", "summari"} <= set(common)
    assert not {"invoic", "parcel", "restart", "colour"} & set(common)
    assert common_words(TASKS[: LEAST_TASKS - 1]) == []
    assert common_words([*TASKS[:3], *[TASKS[0]] * 100]) == []


async def test_of_a_template_only_what_fills_it_is_left(toolbox: Toolbox) -> None:
    await toolbox.store.put_common_words(toolbox.scope, common_words(TASKS))
    asked = "The login form answers 403."
    for query, left in ((f"{ROLE}{asked}", asked), (ROLE, ROLE), (asked, asked)):
        assert (await own_words(toolbox, query))[0] == left


async def test_a_task_within_a_template_finds_what_it_would_find_alone(toolbox: Toolbox, add: Add) -> None:
    wanted = await add(*LOGIN)
    await add("Write a patch for a repository", "1. Read the files.\n2. Write the patch and a summary of every file.")
    asked = f"{ROLE}The login form answers 403, its CSRF token is missing."
    before = await retrieve(toolbox, asked)
    await did(toolbox, TASKS)
    await consolidate(toolbox)
    after = await retrieve(toolbox, asked)
    assert before.memories[0].item.id != wanted
    assert [each.item.id for each in after.memories] == [wanted]
    assert any("most tasks" in notice for notice in after.notices)
    assert after.query == before.query == asked


@pytest.mark.parametrize("asked", ["the login form answers 403", TASKS[0]])
async def test_a_project_of_few_tasks_looks_up_all_words(toolbox: Toolbox, asked: str) -> None:
    await did(toolbox, TASKS[: LEAST_TASKS - 1])
    await consolidate(toolbox)
    assert (await own_words(toolbox, asked))[0] == asked
    assert await toolbox.store.common_words(toolbox.scope) == frozenset()
