"""A note at its own moment: next to the call, failure or prompt that names it, once per session and no more."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from clock import NOW
from hooked import hooked, set_to
from still_bank import Add

from swarm_memory.schema.memory import MemoryLink, Note, Provenance
from swarm_memory.schema.settings import CreditSettings, HookSettings
from swarm_memory.schema.sqlite.events import RETRIEVED
from swarm_memory.server.location import Location
from swarm_memory.tools.memories.remember import WordSource, remember, remember_notes
from swarm_memory.tools.ports.records import UpkeepBatch
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.text.cleaning import NOTES_CLOSE, NOTES_OPEN
from swarm_memory.tools.toolbox import Toolbox

ROOT = Path("/home/kim/shop")
ERROR = "Exit code 1\nTraceback (most recent call last):\nshop.SetupError: region 'eu-1' is not prepared"
COMMIT = Note(
    title="What a commit needs",
    when="Before `git commit`.",
    note="The first line must match `core: lower-case text [SH-12]`, and CHANGES.md a line with the ticket.",
)
REGION = Note(title="Prepare the region", note="SetupError: region '...' is not prepared: run `tools/region.py eu-1`.")

HELD_OUT = CreditSettings(holdout_rate=1.0)

Ask = Callable[..., Awaitable[str]]


@pytest.fixture
def ask(toolbox: Toolbox) -> Ask:
    """Return a function that returns the text that the answer to an event adds."""

    async def ask(name: str, session: str = "s1", tools: Toolbox = toolbox, **event: Any) -> str:
        given = {"hook_event_name": name, "session_id": session, "tool_name": "Bash", **event}
        answer = await hooked(tools, given, "server", Location(ROOT, ROOT, is_remote=True))
        return answer.get("hookSpecificOutput", {}).get("additionalContext", "")

    return ask


def call(command: str, **event: Any) -> dict[str, Any]:
    return {"name": "PreToolUse", "tool_input": {"command": command}, **event}


def failure(error: str = ERROR, **event: Any) -> dict[str, Any]:
    return {"name": "PostToolUseFailure", "tool_input": {"command": "cat a; make test"}, "error": error, **event}


async def test_a_note_stands_beside_the_command_that_it_names_and_once_in_a_session(toolbox: Toolbox, ask: Ask) -> None:
    (done,) = await remember_notes(toolbox, [COMMIT])
    assert await ask(**call("git status && git diff")) == ""
    text = await ask(**call("git add . && git commit -qm 'core: x'"))
    assert text.startswith(NOTES_OPEN)
    assert text.endswith(NOTES_CLOSE)
    assert "core: lower-case text [SH-12]" in text
    assert f"[{done.item.id}]" in text
    assert len(text) <= 400
    assert await ask(**call("git commit --amend")) == ""
    assert await ask("UserPromptSubmit", prompt="git commit the change to the core please") == ""
    assert await ask(**call("git commit -m y", session="s2")) == text


async def test_a_note_stands_beside_an_edit_of_its_file_and_a_call_of_its_tool(toolbox: Toolbox, ask: Ask) -> None:
    notes = [
        Note(title="Rates are generated", note="`src/rates.py` is written by `tools/rates.py`: change that."),
        Note(title="Issues need a team", note="`mcp__tracker__create_issue` wants `team`."),
    ]
    await remember_notes(toolbox, notes)
    edited = await ask("PreToolUse", tool_name="Edit", tool_input={"file_path": f"{ROOT}/src/rates.py"})
    called = await ask("PreToolUse", tool_name="mcp__tracker__create_issue", tool_input={"title": "x"})
    assert ("Rates are generated" in edited, "Issues need a team" in called) == (True, True)
    assert await ask("PreToolUse", tool_name="Read", tool_input={"pattern": "x"}) == ""


async def test_a_long_note_is_cut_to_four_hundred_characters_and_a_call_is_never_shown_more(
    toolbox: Toolbox, ask: Ask
) -> None:
    notes = [
        Note(title=f"Number {at} of what is known of the release", note=f"`relctl push {at}` wants a lease. " * 12)
        for at in (1, 2, 3)
    ]
    await remember_notes(toolbox, [replaced.model_copy(update={"handles": ("relctl push",)}) for replaced in notes])
    texts = [await ask(**call(f"relctl push {at}")) for at in range(4)]
    assert [0 < len(text) <= 400 for text in texts] == [True, True, True, False]
    assert len({text for text in texts if text}) == 3


async def test_an_error_that_came_before_is_known_again_inside_the_output_of_many_commands(
    toolbox: Toolbox, ask: Ask
) -> None:
    await remember_notes(toolbox, [REGION])
    assert await ask(**failure("Exit code 2\nSetupError: the disk is gone")) == ""
    text = await ask(**failure(f"a\nb\n{ERROR}\nmake: *** [test] Error 1"))
    assert "run `tools/region.py eu-1`" in text
    assert len(text) <= 600
    assert await ask(**failure()) == ""


@pytest.mark.parametrize(
    "event",
    [
        {"is_interrupt": True},
        {"tool_name": "mcp__swarm-memory__retrieve_memories"},
        {"tool_name": None},
        {"error": None},
        {"may_have_worked": True, "tool_input": {"command": "cat log.txt"}},
        {"session": "not a session!"},
    ],
)
async def test_what_is_no_failure_of_a_call_is_answered_with_nothing(
    toolbox: Toolbox, ask: Ask, event: dict[str, Any]
) -> None:
    await remember_notes(toolbox, [REGION])
    assert await ask(**(failure() | event)) == ""
    assert await ask(**failure()) != ""


@pytest.mark.parametrize(
    ("note", "error"),
    [
        pytest.param("`ovenctl: table out of step` goes by `ovenctl sync`.", "ovenctl: table out of step", id="a line"),
        pytest.param("`table out of step` goes by `ovenctl sync`.", "ovenctl: table out of step", id="without program"),
        pytest.param("`F41` goes by `ovenctl sync`.", "ovenctl: stopped (F41)\nno plan", id="a code"),
    ],
)
async def test_what_a_failed_call_printed_calls_for_the_note_that_quotes_it(
    toolbox: Toolbox, ask: Ask, note: str, error: str
) -> None:
    await remember_notes(toolbox, [Note(title="Sync the table", note=note)])
    event = {"tool_input": {"command": "python3 -m oven.plan tile"}, "error": f"Exit code 1\n{error}"}
    assert "`ovenctl sync`" in await ask(**(failure() | event))
    assert await ask(**(failure() | event)) == "", "once a session"


async def test_a_prompt_that_names_it_comes_before_what_is_near_by_meaning(toolbox: Toolbox, ask: Ask) -> None:
    await remember_notes(toolbox, [Note(title="What the ledger is", note='"the ledger" is `acct/book.db`.')])
    text = await ask("UserPromptSubmit", prompt="Please add the missing row to the ledger of last month")
    assert "`acct/book.db`" in text


async def test_the_users_rule_on_a_command_comes_with_it_and_not_with_an_unrelated_prompt(
    toolbox: Toolbox, ask: Ask
) -> None:
    await remember(toolbox, "Never run `git push` on a Friday.", "preference", attribution=WordSource("prompt"))
    assert await ask("UserPromptSubmit", prompt="Translate the landing page into French and keep its layout") == ""
    text = await ask(**call("git push origin main"))
    assert "The user said: " in text
    assert "the user's own word: keep to it" in text


async def test_a_session_starts_with_the_users_words_but_for_those_that_come_with_a_command(
    toolbox: Toolbox, ask: Ask
) -> None:
    for word in ("Sort `guests.csv` by the last name.", "Answer in English.", "Sign with `git commit -S`."):
        await remember(toolbox, word, by_hand=True)
    shown = await ask("SessionStart", source="startup")
    assert "Sort `guests.csv` by the last name" in shown
    assert "Answer in English" in shown
    assert "\n- Sign with `git commit -S`" in shown  # the command brings the note; the start lists when
    assert shown.count("git commit") == 1


async def test_what_is_gone_quarantined_or_read_elsewhere_is_not_shown(toolbox: Toolbox, ask: Ask) -> None:
    (done,) = await remember_notes(toolbox, [COMMIT])

    def promoted(host: str | None) -> dict[str, str]:
        return {done.item.id: "AGENTS.md"}

    read = replace(toolbox, promoted=promoted)
    assert await ask(**call("git commit"), tools=read) == ""
    await toolbox.store.set_status((toolbox.scope,), [done.item.id], "quarantined", "looked odd")
    assert await ask(**call("git commit")) == ""
    await toolbox.store.set_status((toolbox.scope,), [done.item.id], "active", "it is right")
    assert await ask(**call("git commit")) != ""


async def test_of_two_that_contradict_each_other_one_comes_and_names_the_other(toolbox: Toolbox, ask: Ask) -> None:
    one, other = await remember_notes(
        toolbox,
        [
            Note(title="Sign commits", note="`git commit -S` is wanted."),
            Note(title="No signature", note="`git commit` without it."),
        ],
    )
    link = MemoryLink(src_id=other.item.id, dst_id=one.item.id, relation="contradicts", weight=0.9)
    await toolbox.store.write_upkeep(toolbox.scope, UpkeepBatch("run_1", NOW, (), (link,)))
    text = await ask(**call("git commit"))
    assert text.count("1)") == 1
    assert "2)" not in text
    assert "Another note says otherwise" in text


async def test_a_held_out_task_is_shown_nothing_and_what_was_found_is_recorded(toolbox: Toolbox, ask: Ask) -> None:
    (done,) = await remember_notes(toolbox, [COMMIT])
    assert await ask(**call("git commit"), tools=set_to(toolbox, credit=HELD_OUT)) == ""
    await settled(toolbox)
    given = await toolbox.store.injections(toolbox.scope, "s1:1")
    assert (given.given, given.withheld) == ({}, (done.item.id,))


async def test_what_was_shown_is_recorded_for_the_task_with_its_moment(toolbox: Toolbox, ask: Ask) -> None:
    (done,) = await remember_notes(toolbox, [COMMIT])
    await ask("UserPromptSubmit", prompt="Round the totals of every order to the cent")
    await ask(**call("git commit"))
    await settled(toolbox)
    assert list((await toolbox.store.injections(toolbox.scope, "s1:1")).given) == [done.item.id]
    assert "call" in [each.data.get("via") for each in await toolbox.store.events_of_kind(toolbox.scope, RETRIEVED, 9)]


async def test_nothing_is_said_at_calls_or_at_all_where_the_settings_say_so(toolbox: Toolbox, ask: Ask) -> None:
    await remember_notes(toolbox, [COMMIT, REGION])
    for hooks in (HookSettings(at_calls=False), HookSettings(inject=False)):
        silent = set_to(toolbox, hooks=hooks)
        assert await ask(**call("git commit"), tools=silent) == ""
        assert bool(await ask(**failure(), session=f"t{hooks.inject}", tools=silent)) is hooks.inject
        start = await ask("SessionStart", session=f"u{hooks.inject}", tools=silent, source="startup")
        assert bool(start) is hooks.inject


async def test_a_verified_memory_comes_before_more_than_one_that_nobody_vouches_for(
    toolbox: Toolbox, ask: Ask, add: Add
) -> None:
    sure = Provenance(judge="evidence", handles=("command:git push",))
    await add("Vouched for", "1. Rebase first.", provenance=sure, created_at=NOW - timedelta(days=1))
    for at in (1, 2):
        doubted = sure.model_copy(update={"distiller": "agent"})
        await add(f"Nobody vouches {at}", "1. Force it.", provenance=doubted, confidence=0.9)
    text = await ask(**call("git push"))
    assert text.index("Vouched for") < text.index("Nobody vouches")
    assert text.count("Nobody vouches") == 1


async def settled(toolbox: Toolbox) -> None:
    recorder: Any = getattr(toolbox.store, "recorder")  # noqa: B009 - of this store alone
    await recorder.settle()


LEDGER = Note(
    title="Ledger entries are booked twice",
    when="Changing how the ledger books an entry.",
    note="Each entry needs its counter entry in `mirror.csv`; the monthly report adds up both.",
)


NEAR, SURE = "our monthly report shows wrong sums again", "please change how the ledger books an entry"
LINE = f"- {LEDGER.when}\n"


async def test_a_session_starts_with_when_notes_matter_and_a_prompt_gets_whole_what_surely_fits(
    toolbox: Toolbox, ask: Ask
) -> None:
    await remember_notes(toolbox, [LEDGER])
    start = await ask("SessionStart", source="startup")
    assert LINE in start
    assert all(each not in start for each in ("mirror.csv", "booked twice"))
    assert await ask("UserPromptSubmit", prompt=NEAR) == ""
    assert "mirror.csv" in await ask("UserPromptSubmit", session="s2", prompt=SURE)
    (found,) = (await retrieve(toolbox, LEDGER.when, k=1)).memories
    assert found.item.title == LEDGER.title


async def test_what_the_start_did_not_list_is_listed_once_at_the_first_prompt_that_it_may_fit(
    toolbox: Toolbox, ask: Ask
) -> None:
    await ask("SessionStart", session="early", source="startup")
    await remember_notes(toolbox, [LEDGER])
    await ask("SessionStart", session="emptied", source="startup")
    await ask("SessionStart", session="elsewhere", source="startup", host="cursor")
    held = set_to(toolbox, credit=HELD_OUT)
    assert await ask("SessionStart", session="held out", tools=held, source="startup") == ""
    await ask("SessionStart", session="emptied", source="compact", tools=held)
    for session in ("early", "resumed", "held-out"):
        shown = await ask("UserPromptSubmit", session=session, prompt=NEAR)
        assert (LINE in shown, "mirror.csv" in shown) == (True, False), session
        assert await ask("UserPromptSubmit", session=session, prompt=f"Now another thing: {NEAR}") == ""


async def test_the_start_lists_nothing_of_others_nothing_suspect_and_nothing_that_is_gone(
    toolbox: Toolbox, ask: Ask, add: Add
) -> None:
    agents = Provenance(distiller="agent")
    for at in range(40):
        await add(f"Imported {at}", "1. Book.", provenance=Provenance(imported_from="a clone"), confidence=0.9)
    for title, changed in (
        ("Shown before", {"repeats_shown": True}),
        ("Brought as the user's", {"heard_in": "nowhere"}),
        ("Of another bank", {"imported_from": "a clone"}),
        ("Suspect", {"suspect": "wording"}),
    ):
        await add(title, "1. Book.", description=f"{title}.", provenance=agents.model_copy(update=changed))
    await add("Without a moment", "1. Book.", provenance=agents)
    await add("Blank", "1. Book.", description="``", provenance=agents)
    await add("Evident", "1. Book.", provenance=Provenance(judge="evidence"))
    await add("Own", "1. Book.", description="Booking of the agent's own.", provenance=agents)
    start = await ask("SessionStart", source="startup")
    assert [each for each in start.splitlines() if each[:2] == "- "] == ["- Booking of the agent's own.", "- Evident"]


async def test_a_suspect_note_is_not_even_listed_where_it_may_fit(toolbox: Toolbox, ask: Ask, add: Add) -> None:
    doubted = Provenance(distiller="agent", suspect="wording")
    await add(LEDGER.title, LEDGER.note, description=LEDGER.when, provenance=doubted)
    assert await ask("UserPromptSubmit", prompt=NEAR) == ""
