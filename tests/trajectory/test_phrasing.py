"""What is kept of a task: its own words, without the frame that a harness puts round every task."""

import pytest

from swarm_memory.tools.trajectory.phrasing import own_words

ROLE = "You are a coding assistant. You are given a repository and a task."
RULES = "You may run one command at a time.\nWhen you are done, answer with DONE. Your answer is final."


@pytest.mark.parametrize(
    "framed",
    [
        "The feed importer loses the last row",
        f"{ROLE}\n\nThe feed importer loses the last row\n\n{RULES}",
        f"{ROLE}\n<ticket>\nThe feed importer loses the last row\n</ticket>\n{RULES}",
        "<folder>\n/w/shop\n</folder>\nI have put a project into that folder. Look at this:\n\n<ticket>\n"
        "The feed importer loses the last row\n</ticket>\n\nCan you write what it takes?\nYou need not test it.",
        f"We work on this ticket together. It says:\nTICKET:\nThe feed importer loses the last row\n\nRULES:\n{RULES}",
        f"# Role\n{ROLE}\n# Task\nThe feed importer loses the last row\n# Rules\n{RULES}",
        "The feed importer loses the last row\n\n```\nTraceback\n```\n<!-- fill in the form -->",
    ],
)
def test_a_task_is_told_without_its_frame(framed: str) -> None:
    assert own_words(framed) == "The feed importer loses the last row"


def test_a_request_to_the_one_who_works_is_the_task() -> None:
    assert own_words("Could you mend the importer? It loses rows.") == "Could you mend the importer? It loses rows."


def test_a_task_that_only_speaks_to_him_keeps_all_but_his_role() -> None:
    assert own_words("You are Ada. You want a seat by the window.") == "You want a seat by the window."
