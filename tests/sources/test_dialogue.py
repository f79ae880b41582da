"""Conversations as sources: known by their shape, each turn a passage, found with its speaker, time and context."""

import json
from pathlib import Path
from typing import Any

import pytest

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.source import Passage
from swarm_memory.server.operations.tools_and_sources import of_passage
from swarm_memory.server.sources.documents import read_documents
from swarm_memory.server.sources.indexing import IndexRequest, index
from swarm_memory.tools.sources.chunks import MAX_WORDS
from swarm_memory.tools.sources.dialogue import Turn, conversation_passages
from swarm_memory.tools.sources.sources import search_sources
from swarm_memory.tools.toolbox import Toolbox

ANNA = {"speaker": "Anna", "text": "The kiln is ready."}
BEN = {"speaker": "Ben", "text": "Then I bring the bowls."}
TITLES = ["Anna, 7 May 2023", "Ben, 7 May 2023"]


def _of(who: str, what: str, when: str, times: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [
        {who: each["speaker"], what: each["text"], when: time} for each, time in zip((ANNA, BEN), times, strict=True)
    ]


def _nodes(author: str) -> dict[str, Any]:
    said = {"author": {"role": author}, "content": {"content_type": "text", "parts": [f"I am the {author}."]}}
    return {"id": author, "message": {**said, "create_time": 1683460000}}


SHAPES = {
    "a list of turns": [_of("role", "content", "timestamp", ("2023-05-07T09:00:00Z", "2023-05-07T09:01:00Z"))],
    "seconds": [_of("name", "message", "time", (1683460000, 1683460001.5))],
    "milliseconds": [{"messages": _of("sender_name", "content", "timestamp_ms", (1683460000000, 1683460001000))}],
    "messages of an object with a date": [{"date": "2023-05-07", "messages": [ANNA, BEN]}],
    "sessions beside their times": [{"session_1": [ANNA, BEN], "session_1_date_time": "2023/05/07 (Sun) 10:00"}],
    "a list of sessions beside one of dates": [{"haystack_sessions": [[ANNA, BEN]], "haystack_dates": ["2023/05/07"]}],
    "parts": [[{"from": name, "date": "2023-05-07", "text": [text[:5], {"type": "bold", "text": text[5:]}]}
               for name, text in (("Anna", ANNA["text"]), ("Ben", BEN["text"]))]],
}  # fmt: skip


def _read(folder: Path, name: str, value: object) -> list[Passage]:
    (folder / name).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return [passage for group in read_documents(folder) for passage in group.parse()]


@pytest.mark.parametrize("shape", SHAPES)
def test_each_turn_is_a_passage_under_who_says_it_and_when(tmp_path: Path, shape: str) -> None:
    found = _read(tmp_path, "talk.json", SHAPES[shape][0])
    assert [each.title for each in found] == TITLES
    assert "".join(found[0].content.split()) == "Thekilnisready."
    assert [(each.group, each.position, each.data["turn"]) for each in found] == [
        ("talk.json", 0, 0),
        ("talk.json", 1, 1),
    ]


def test_lines_of_json_are_one_talk_in_the_order_of_their_times(tmp_path: Path) -> None:
    said = _of("user", "text", "ts", ("1683460009", "1683460001"))
    later, earlier = ({**each, "ts": float(each["ts"])} for each in said)
    found = _read(tmp_path, "talk.jsonl", "\n".join(map(json.dumps, (later, {"type": "joined"}, earlier))) + "\n")
    assert [each.title for each in found] == TITLES[::-1]


def test_nodes_of_an_exported_chat_are_turns(tmp_path: Path) -> None:
    nodes = {each: _nodes(each) for each in ("user", "assistant")}
    found = _read(tmp_path, "conversations.json", [{"title": "x", "mapping": {"root": {"message": None}, **nodes}}])
    assert [(each.title, each.content) for each in found] == [
        ("user, 7 May 2023", "I am the user."),
        ("assistant, 7 May 2023", "I am the assistant."),
    ]


def test_what_is_no_date_is_kept_in_its_words_and_a_caption_is_said_too(tmp_path: Path) -> None:
    talk = {
        "session_1": [{**ANNA, "blip_caption": "a blue kiln"}, BEN],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
    }
    first, _ = _read(tmp_path, "talk.json", [{"conversation": talk, "qa": [{"question": "who?", "answer": "Ben"}]}])
    assert (first.title, first.content) == ("Anna, 1:56 pm on 8 May, 2023", "The kiln is ready.\na blue kiln")


@pytest.mark.parametrize(
    "value",
    [
        [{"name": f"setting {at}", "text": "on"} for at in range(9)],
        {"name": "shop", "scripts": {"message": "x"}},
        [{"role": "user"}, {"role": "assistant"}],
        [[[[[[[[[[[[[[ANNA, BEN]]]]]]]]]]]]]],
        "not json at all",
    ],
)
def test_other_json_in_a_folder_is_left_alone(tmp_path: Path, value: object) -> None:
    assert _read(tmp_path, "data.json", value) == []


TORN = f'{json.dumps(ANNA)}\n{{"speaker": "Ben", "text": "Th\n{json.dumps(BEN)}\n'
COMMENTED = '// who is greeted\n{"name": "shop", "text": "Welcome to the kiln."}\n'


async def test_of_a_talk_with_a_torn_line_the_others_are_read_and_the_line_is_named(
    toolbox: Toolbox, tmp_path: Path
) -> None:
    (tmp_path / "talk.jsonl").write_text(TORN, encoding="utf-8")
    for place in ("talk.jsonl", "."):
        done = await index(toolbox, IndexRequest(kind="document", path=place), tmp_path)
        (fault,) = done.faults
        assert (done.added, done.passages, fault.group) == (1, 2, "talk.jsonl as a conversation")
        assert "line 2: " in fault.reason
        assert fault.reason.endswith("read without that")


async def test_what_may_be_a_talk_and_is_no_json_is_read_as_text_where_it_is_named(
    toolbox: Toolbox, tmp_path: Path
) -> None:
    (tmp_path / "greeting.json").write_text(COMMENTED, encoding="utf-8")
    done = await index(toolbox, IndexRequest(kind="document", path="greeting.json"), tmp_path)
    assert (done.added, [fault.reason.split(";")[1] for fault in done.faults]) == (1, [" it is read as text"])
    (hit, *_) = (await search_sources(toolbox, "who is greeted at the kiln")).hits
    assert hit.passage.content == COMMENTED.strip()
    folder = await index(toolbox, IndexRequest(kind="document", path="."), tmp_path)
    assert (folder.added, [fault.group for fault in folder.faults]) == (0, ["greeting.json"])


def test_what_is_nested_too_deep_is_no_talk(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not valid JSON in 1 place"):
        _read(tmp_path, "deep.json", '{"role": "user", "text": ' + "[" * 100_000)


@pytest.mark.parametrize(
    ("time", "title"),
    [
        ("1355517523.000005", "Anna, 14 December 2012"),
        (1355517523, "Anna, 14 December 2012"),
        ("1355517523000", "Anna, 14 December 2012"),
        ("20121214", "Anna, 14 December 2012"),
        ("14 Dec, 9 pm", "Anna, 14 Dec, 9 pm"),
        ("off", "Anna"),
        (True, "Anna"),
        (17.25, "Anna"),
    ],
)
def test_a_time_is_a_date_or_seconds_or_words_with_a_digit(tmp_path: Path, time: object, title: str) -> None:
    first, _ = _read(tmp_path, "talk.json", [{**ANNA, "time": time}, BEN])
    assert first.title == title


def test_what_is_no_time_gives_way_to_what_is_one(tmp_path: Path) -> None:
    first, _ = _read(tmp_path, "talk.json", [{**ANNA, "time": "on", "ts": "1683460000.000200"}, BEN])
    assert first.title == TITLES[0]


def test_a_long_turn_is_several_passages_and_a_session_is_no_context_of_the_next() -> None:
    words = "Some words that fill a line of a talk.\n" * 150 + "password: Qx7tR2mPw9z"
    found = conversation_passages(
        "g", [Turn(words, "Anna", session="1"), Turn(" ", "Ben", session="1"), Turn("Bye", "Ben", session="2")]
    )
    assert (len(found) > len(words.split()) // MAX_WORDS, "Qx7t" in found[-2].content) == (True, False)
    assert [each.data["turn"] for each in found] == [0] * (len(found) - 1) + [2]
    assert found[-1].position - found[-2].position > 2


async def test_a_turn_is_found_with_the_turns_around_it_and_who_says_them(toolbox: Toolbox, tmp_path: Path) -> None:
    said = [ANNA, BEN, {"speaker": "Anna", "text": "Glaze them with ash first."}]
    (tmp_path / "talk.json").write_text(json.dumps({"date": "2023-05-07", "messages": said}), encoding="utf-8")
    done = await index(toolbox, IndexRequest(kind="document", path="talk.json"), tmp_path)
    assert (done.added, done.passages, done.faults) == (1, 3, ())
    hit = of_passage((await search_sources(toolbox, "who brings the bowls, Ben?")).hits[0])
    assert (hit["title"], hit["text"]) == ("Ben, 7 May 2023", "Then I bring the bowls.")
    assert hit["before"] == "Anna, 7 May 2023: The kiln is ready."
    assert hit["after"] == "Anna, 7 May 2023: Glaze them with ash first."
    assert (await search_sources(toolbox, "May 2023, what did Anna say of glaze")).hits[0].passage.data["turn"] == 2
