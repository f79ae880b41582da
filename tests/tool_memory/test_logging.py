"""Logging calls: rows, the window, exact totals, ids, redaction; calls of transcripts once, at their own times."""

import json
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_runs import Script

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.settings import DistillSettings
from swarm_memory.schema.tool_memory import ToolMemory
from swarm_memory.server.storage.stores import tool_memory
from swarm_memory.tools.guard.redact import Redacted, redact
from swarm_memory.tools.text.tokens import count_tokens
from swarm_memory.tools.tool_memory.log import log_calls_of
from swarm_memory.tools.toolbox import Toolbox
from tests.tool_memory.logged import at, bank, call, log_calls


async def test_a_time_without_a_zone_is_this_machines(toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        await log_calls(toolbox, [call(create_time=f"2025-10-10 12:00:00{zone}") for zone in ("", "Z")])
    finally:
        monkeypatch.undo()
        time.tzset()
    kept = await toolbox.store.tool_memory.recent_calls(toolbox.scope, "search", 9)
    assert sorted(each.call.created_at.hour for each in kept) == [3, 12]


async def memory_of(toolbox: Toolbox, tool: str = "search") -> ToolMemory:
    (found,) = await toolbox.store.tool_memory.memories(toolbox.scope, [tool])
    return found


@pytest.mark.parametrize("redact_pii", [True, False])
async def test_addresses_paths_and_uuids_of_a_call_are_kept_only_where_personal_data_is(
    toolbox: Toolbox, redact_pii: bool
) -> None:
    places = ("https://build.acme.io/run/7", "10.11.12.13", "/home/ada/shop", "0b0ea5b9-6f7c-4d1f-9d0c-2a9c1a1f8a11")
    asked = toolbox.settings.model_copy(update={"distill": DistillSettings(redact_pii=redact_pii)})
    one = call(input={"at": [*places], "timeout": 600_000}, output='{"url": "' + places[0] + '"}', task=places[2])
    await log_calls(replace(toolbox, settings=asked), [one])
    (kept,) = await toolbox.store.tool_memory.recent_calls(toolbox.scope, "search", 10)
    answer = kept.call.model_dump_json()
    assert {place in answer for place in places} == {not redact_pii}
    assert json.loads(kept.call.input)["timeout"] == 600_000
    assert set(json.loads(kept.call.output)) == {"url"}


async def test_a_call_with_an_id_that_is_known_is_one_row_even_after_it_left_the_window(open_bank: Any) -> None:
    async with open_bank(max_history_tool_call_cnt=2) as toolbox:
        first = call(session_id="s", call_id="c0", create_time=at(0))
        await log_calls(toolbox, [first, first])
        await log_calls(toolbox, [call(session_id="s", call_id=f"c{n}", create_time=at(n)) for n in range(1, 4)])
        again = await log_calls(toolbox, [first, call("other", session_id="s", call_id="new"), first])
        assert (again.logged, again.known, again.tools) == (1, 2, ("other", "search"))
        totals = (await memory_of(toolbox)).totals
        assert (totals.calls, totals.kept) == (4, 2)


async def test_calls_of_a_session_that_an_older_bank_keeps_as_one_row_are_known(open_bank: Any) -> None:
    calls = [call(session_id="first", call_id=f"c{n}", create_time=at(n)) for n in range(4)]
    async with open_bank(max_history_tool_call_cnt=2) as toolbox:
        await log_calls(toolbox, calls)
        fold = (
            "DELETE FROM tool_calls",
            "DELETE FROM trimmed_tool_calls",
            f"INSERT INTO trimmed_tool_calls VALUES (1, 'search', 'first', '{tool_memory.WHOLE_SESSION}')",
        )

        def folded(connection: Any) -> None:
            for statement in fold:
                connection.execute(statement)

        await toolbox.store.write(folded)
        assert (await log_calls(toolbox, calls)).known == len(calls), "read again, nothing is counted twice"
        assert (await log_calls(toolbox, [call(session_id="third", call_id="c0")])).logged == 1


async def test_only_calls_that_are_new_are_redacted_and_never_on_the_loops_thread(
    toolbox: Toolbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, bool]] = []

    def noted(text: str, *, pii: bool = True) -> Redacted:
        seen.append((text, threading.current_thread() is threading.main_thread()))
        return redact(text, pii=pii)

    monkeypatch.setattr("swarm_memory.tools.guard.redact.redact", noted)
    calls = [call(input=f"in {n}", output=f"out {n}", session_id="s", call_id=f"c\x1b[1m{n}") for n in range(45)]
    calls[0]["tool_schema"] = "searches"
    assert (await log_calls(toolbox, calls[:40])).logged == 40
    assert {text for text, _ in seen} == {"searches", *(f"{kind} {n}" for kind in ("in", "out") for n in range(40))}
    assert not any(on_loop for _, on_loop in seen)
    seen.clear()
    result = await log_calls(toolbox, calls[1:])
    assert (result.logged, result.known) == (5, 39)
    assert sorted(text for text, _ in seen) == sorted(f"{kind} {n}" for kind in ("in", "out") for n in range(40, 45))


async def test_the_schema_of_a_tool_that_was_given_last_is_kept_also_with_a_known_call(toolbox: Toolbox) -> None:
    await log_calls(toolbox, [call(session_id="s", call_id="c", tool_schema="first")])
    again = call(session_id="s", call_id="c", tool_schema={"last": 1})
    await log_calls(toolbox, [call(tool_schema="second"), again, call()])
    assert (await memory_of(toolbox)).tool_schema == '{"last": 1}'


async def test_the_same_id_in_another_session_is_another_call(toolbox: Toolbox) -> None:
    calls = [call(session_id=session, call_id="c") for session in ("s", "t")]
    assert (await log_calls(toolbox, calls)).logged == 2


async def test_what_a_caller_does_not_say_is_counted_or_left_open(toolbox: Toolbox) -> None:
    await log_calls(toolbox, [call(input="a b c", output="d e"), call(token_cost=7, time_cost=0.25)])
    second, first = await toolbox.store.tool_memory.recent_calls(toolbox.scope, "search", 2)
    assert first.call.token_cost == count_tokens("a b c") + count_tokens("d e")
    assert (first.call.time_cost_s, second.call.token_cost, second.call.time_cost_s) == (None, 7, 0.25)


async def test_secrets_are_taken_out_and_long_arguments_stay_json(toolbox: Toolbox) -> None:
    key = "AKIA" + "IOSFODNN7" + "ABCDEFG"
    pem = "\n".join(("-----BEGIN PRIVATE KEY-----", "0123" * 1000, "-----END PRIVATE KEY-----", "z " * 200))
    answer = {"key": key, "content": "x" * 50_000 + pem, "path": "a.py"}
    await log_calls(toolbox, [call(input=answer, output=f"key {key} " + "y" * 50_000 + pem, task=f"use {key}")])
    (kept,) = await toolbox.store.tool_memory.recent_calls(toolbox.scope, "search", 1)
    assert not [each for each in (key, "0123") if each in kept.call.input + kept.call.output]
    assert max(len(kept.call.input), len(kept.call.output)) <= 2000
    assert '"path": "a.py"' in kept.call.input


@pytest.mark.parametrize(
    ("calls", "says"),
    [
        ([], "calls is empty"),
        ([{"tool_name": "x"}], "calls[0].success: Field required"),
        ([call(), call(create_time="yesterday")], "calls[1].create_time: Input should be a valid datetime"),
        ([call(inputs={})], "calls[0].inputs: Extra inputs are not permitted"),
        ([call(time_cost=float("nan"))], "calls[0].time_cost"),
        ([call(tool_name="")], "calls[0].tool_name"),
    ],
)
async def test_a_faulty_call_is_named_and_nothing_is_kept(
    toolbox: Toolbox, calls: list[dict[str, Any]], says: str
) -> None:
    with pytest.raises(InputError) as raised:
        await log_calls(toolbox, calls)
    assert says in str(raised.value)
    assert await toolbox.store.tool_memory.memories(toolbox.scope, None) == []


_LOGGED = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]),
        st.booleans(),
        st.one_of(st.none(), st.floats(0, 1e6, allow_nan=False)),
        st.integers(0, 10_000),
        st.integers(0, 50),
        st.one_of(st.none(), st.integers(0, 20)),
    ),
    max_size=40,
)


@settings(max_examples=15)
@given(logged=_LOGGED, window=st.integers(1, 8), cuts=st.integers(1, 5))
async def test_totals_are_exact_and_windows_hold_whatever_is_logged(logged: list[Any], window: int, cuts: int) -> None:
    calls = [
        call(
            tool,
            success=success,
            time_cost=time,
            token_cost=tokens,
            create_time=at(second),
            session_id="s",
            call_id=None if number is None else f"c{number}",
        )
        for tool, success, time, tokens, second, number in logged
    ]
    with tempfile.TemporaryDirectory() as folder:
        async with bank(Path(folder), max_history_tool_call_cnt=window) as toolbox:
            for start in range(0, len(calls), cuts):
                await log_calls(toolbox, calls[start : start + cuts])
            distinct = _distinct(calls)
            for tool in ("a", "b"):
                own = [each for each in distinct if each["tool_name"] == tool]
                found = await toolbox.store.tool_memory.memories(toolbox.scope, [tool])
                if not own:
                    assert found == []
                    continue
                totals = found[0].totals
                timed = [each["time_cost"] for each in own if each["time_cost"] is not None]
                assert (totals.calls, totals.succeeded) == (len(own), sum(each["success"] for each in own))
                assert (totals.counted, totals.token_cost) == (len(own), sum(each["token_cost"] for each in own))
                assert (totals.timed, totals.time_cost_us) == (len(timed), sum(round(t * 1e6) for t in timed))
                kept = await toolbox.store.tool_memory.recent_calls(toolbox.scope, tool, 1000)
                assert totals.kept == len(kept) == min(window, len(own))
                newest = sorted((each["create_time"] for each in own), reverse=True)[:window]
                assert sorted((k.call.created_at.isoformat() for k in kept), reverse=True) == newest


def _distinct(calls: list[Any]) -> list[Any]:
    """Leave out calls whose id came before, whichever tool they belong to."""
    seen: set[str | None] = set()
    kept: list[Any] = []
    for each in calls:
        if each["call_id"] is None or each["call_id"] not in seen:
            kept.append(each)
        seen.add(each["call_id"])
    return kept


async def test_a_call_without_its_id_is_not_logged_and_without_a_session_once_a_task(toolbox: Toolbox) -> None:
    trajectory = Script("find it", session_id="s").shell("grep -r it .", "here").done()
    steps = tuple(step.model_copy(update={"call_id": None}) for step in trajectory.steps)
    assert await log_calls_of(toolbox, trajectory.model_copy(update={"steps": steps})) == 0
    for task_id, logged in (("t1", 1), ("t1", 0), ("t2", 1)):
        given = trajectory.model_copy(update={"session_id": None, "task_id": task_id})
        assert await log_calls_of(toolbox, given) == logged
    assert await log_calls_of(toolbox, trajectory) == 1
