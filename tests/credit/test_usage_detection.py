"""Which memories count as used by a task, and which do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_tasks import done, made, ran, said, saw

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.tools.credit.outcome import advised_terms, detect_uses
from swarm_memory.tools.guard.redact import archivable

FIRST = made().model_copy(update={"id": "rm_01JXYZABCD0000000000000001"})
SECOND = made("Ask first", "1. Ask the user.").model_copy(update={"id": "rm_01JXYZEFGH0000000000000002"})
BOTH = (FIRST, SECOND)


def methods(trajectory: Trajectory, *items: MemoryItem) -> list[str]:
    return [use.method for use in detect_uses(trajectory, items, {})]


CITED = (
    f"I follow [{FIRST.id}] here.",
    f"used: {FIRST.id.lower()}",
    "As [rm_01JXYZABCD] says, I copy the example first.",
    "Used [rm_01JXYZABCD…].",
    f"I could not run it at first. With [{FIRST.id}] it went well.",
    f"[{FIRST.id}] says not to use npm, so I take pnpm.",
)
ASIDE = (
    f"I did not use [{FIRST.id}].",
    f"[{FIRST.id}] doesn't apply here.",
    f"I ignored {FIRST.id}; it is about another project.",
    f"None of the notes ({FIRST.id}) fit.",
    "The ids begin with rm_01JXYZ.",
    "rm_01JX",
    "rm_01JXYZABCDX",
    "The agent platform rm_ tools",
)


@pytest.mark.parametrize("text", [*CITED, *ASIDE])
def test_a_memory_that_the_agent_names_is_cited_unless_it_is_set_aside_or_could_be_another(text: str) -> None:
    assert methods(done(said(text)), *BOTH) == ["cited" if text in CITED else "none", "none"]


def test_an_id_that_a_tool_or_a_person_says_is_no_use_and_an_agents_survives_the_redaction() -> None:
    user = Step(id="s0", kind="message", role="user", text=f"use {FIRST.id}")
    thought = Step(id="s0", kind="thought", role="assistant", text=f"shall I use {FIRST.id}?")
    assert methods(done(saw(f"[{FIRST.id}]"), user, thought), FIRST) == ["none"]
    assert methods(archivable(done(said(f"I used [{FIRST.id}].")), Settings()), FIRST) == ["cited"]


COPY = "cp config/test.example.toml config/test.toml"
COMMAND = f"{COPY} && python -m shop.migrate"


def test_doing_what_a_memory_names_is_use_also_where_the_agent_said_so_first() -> None:
    (use,) = detect_uses(done(ran(COMMAND)), [FIRST], {})
    assert (use.method, use.overlap) == ("overlap", 1.0)
    assert methods(done(said(f"I run `{COPY}` first."), ran(COPY)), FIRST) == ["overlap"]


def test_what_was_named_before_is_warned_of_or_is_one_name_in_common_is_no_use() -> None:
    assert methods(done(saw(f"README: {COMMAND}"), ran(COMMAND)), FIRST) == ["none"]
    assert methods(done(ran(COMMAND), task=f"please run {COMMAND}"), FIRST) == ["none"]
    item = made("Keep the lock file", "1. Do not run `npm install left-pad`.\n2. Look at `package-lock.json` first.")
    assert advised_terms(item) == {"package-lock.json"}
    assert methods(done(ran("npm install left-pad")), item) == ["none"]
    item = made("Run the tests", "1. Run `pytest`.")
    assert methods(done(ran("pytest")), item) == ["none"]


def test_a_memory_without_quotes_is_known_by_its_identifiers() -> None:
    item = made("Refresh the token", "1. Call refreshToken before loadOrders.\n2. Read order_total from the answer.")
    assert advised_terms(item) == {"refreshtoken", "loadorders", "order_total"}
    assert methods(done(ran("node -e 'refreshToken(); loadOrders()'")), item) == ["overlap"]


def test_calling_a_tool_that_a_memory_names_is_no_use_because_the_agent_knew_of_the_tool() -> None:
    item = made("Look before booking", "1. Call `search_flights`.\n2. Call `book_flight`.")
    calls = [
        Step(id="s0", kind="tool_call", role="assistant", tool_name=name) for name in ("search_flights", "book_flight")
    ]
    assert methods(done(*calls), item) == ["none"]


@given(st.lists(st.text(max_size=200), max_size=8), st.text(min_size=3, max_size=400).filter(lambda text: text.strip()))
def test_no_text_breaks_the_detection_and_every_share_is_a_share(texts: list[str], content: str) -> None:
    item = made("A title", content)
    steps = [make(text) for text in texts for make in (said, ran, saw)]
    for use in detect_uses(done(*steps), [item, FIRST], {}):
        assert 0 <= use.overlap <= 1
        assert (use.method == "none") == (use.overlap < 0.5)
