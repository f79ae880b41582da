"""Datasets: each published form is read, and what is wrong with a file is named with its place."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from swarm_memory.schema.benchmark import Dataset
from swarm_memory.schema.errors import InputError
from swarm_memory.tools.benchmark.retrieval.datasets import cut, info_of, locomo, longmemeval, sample, with_foreign
from swarm_memory.tools.benchmark.retrieval.retrieval import load

EMPTY_TALK: list[dict[str, Any]] = [{"conversation": {}, "qa": []}]


def _conversation(**changes: Any) -> list[dict[str, Any]]:
    turns = [{"speaker": "Ann", "dia_id": f"D1:{at}", "text": f"word{at}"} for at in (1, 2)]
    turns[1]["blip_caption"] = "a red bike"
    asked = [
        {"question": "which?", "answer": 2022, "evidence": ["D1:2"], "category": 4},
        {"question": "nowhere?", "evidence": ["D9:9"], "category": 5},
    ]
    talk = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns, "speaker_a": "Ann"}
    return [{"conversation": talk | changes, "qa": asked}]


def _record(question_id: str = "q1", **changes: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": "I like tea."}, {"role": "assistant", "content": "Noted."}]
    return {
        "question_id": question_id,
        "question_type": "single-session-user",
        "question": "what do I like?",
        "answer": "tea",
        "question_date": "2023/05/30 (Tue) 23:40",
        "haystack_session_ids": ["s1"],
        "haystack_dates": ["2023/05/20 (Sat) 02:21"],
        "haystack_sessions": [said],
        "answer_session_ids": ["s1"],
    } | changes


def test_the_sample_is_large_hard_and_of_several_groups_and_times() -> None:
    data = sample()
    assert len(data.items) >= 200
    assert len(data.questions) >= 100
    assert len({item.group for item in data.items}) == 3
    assert all(item.time for item in data.items)
    assert len({item.content for item in data.items}) == len(data.items)
    assert len({question.query for question in data.questions}) == len(data.questions)


def test_locomo_is_read_by_turns_with_captions_and_times() -> None:
    data = locomo(_conversation(), "f.json")
    assert [item.content for item in data.items] == ["Ann: word1", "Ann: word2 a red bike"]
    assert {item.part for item in data.items} == {"D1"}
    assert f"{data.items[0].time:%Y-%m-%d %H:%M}" == "2023-05-08 13:56"
    (question,) = data.questions
    assert (question.gold, question.answer, question.category) == (("D1:2",), "2022", "single-hop")


def test_locomo_is_read_by_sessions() -> None:
    data = locomo(_conversation(), "f.json", by_session=True)
    (item,) = data.items
    assert (item.id, item.content) == ("D1", "Ann: word1\nAnn: word2 a red bike")
    assert data.questions[0].gold == ("D1",)


def test_a_longmemeval_session_becomes_a_document() -> None:
    data = longmemeval([_record()], "f.json")
    (item,) = data.items
    assert item.content == "user: I like tea.\nassistant: Noted."
    assert data.questions[0].gold == ("s1",)
    assert f"{data.questions[0].now:%Y-%m-%d %H:%M}" == "2023-05-30 23:40"


def test_a_longmemeval_question_without_an_answer_has_no_gold() -> None:
    data = longmemeval([_record(), _record("q2_abs")], "f.json")
    assert [question.gold for question in data.questions] == [("s1",), ()]
    assert data.questions[1].category == "abstention"


WITHOUT_TEXT = [{"speaker": "Ann", "dia_id": "D1:1"}]
PARTS = "haystack_session_ids, haystack_dates and haystack_sessions"


@pytest.mark.parametrize(
    ("read", "value", "said"),
    [
        (locomo, {}, "f.json: Input should be a valid"),
        (locomo, _conversation(session_1=WITHOUT_TEXT), "f.json[0].conversation.session_1[0].text"),
        (locomo, _conversation(session_1_date_time="yesterday"), "session_1_date_time: 'yesterday' is no date"),
        (locomo, EMPTY_TALK, "0 items"),
        (longmemeval, [_record(haystack_dates=[])], f"f.json[0]: {PARTS} differ"),
        (longmemeval, [_record(question_date="soon")], "f.json[0].question_date: 'soon' is no date"),
        (
            longmemeval,
            [_record(haystack_sessions=[[{"role": "user"}]])],
            "f.json[0].haystack_sessions[0][0].content: Field required",
        ),
    ],
)
def test_a_published_file_of_another_shape_is_refused_with_the_place(
    read: Callable[[object, str], Dataset], value: object, said: str
) -> None:
    with pytest.raises(InputError) as refused:
        read(value, "f.json")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"items": [{"id": "x", "content": "y"}] * 2}, "id 'x' stands 2 times in group ''"),
        ({"questions": [{"query": "q", "gold": ["zz"]}]}, "questions[0].gold: 'zz' is no item of group ''"),
        ({"questions": [{"gold": ["x"]}]}, "tiny.json.questions[0].query: Field required"),
        ({"items": [{"id": "x", "content": "y", "colour": 1}]}, "tiny.json.items[0].colour: Extra inputs"),
    ],
)
def test_a_normalized_file_that_cannot_be_asked_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    file = tmp_path / "tiny.json"
    good = {"name": "t", "items": [{"id": "x", "content": "y"}], "questions": [{"query": "q", "gold": ["x"]}]}
    file.write_text(json.dumps(good | change), encoding="utf-8")
    with pytest.raises(InputError) as refused:
        load("file", file)
    assert said in str(refused.value)


def test_what_is_no_json_is_refused_with_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text('{"name":\n oops}', encoding="utf-8")
    with pytest.raises(InputError, match=r"bad\.json: this is no JSON: .* line 2, column 2"):
        load("file", file)
    with pytest.raises(InputError, match="cannot be read"):
        load("file", tmp_path / "none.json")
    with pytest.raises(InputError, match="needs a path"):
        load("locomo", None)


def _beir(folder: Path, qrels: str) -> Path:
    (folder / "corpus.jsonl").write_text(
        '{"_id": "d1", "title": "T", "text": "one"}\n{"_id": "d2", "text": "two"}\n', encoding="utf-8"
    )
    (folder / "queries.jsonl").write_text(
        '{"_id": 1, "text": "first?"}\n{"_id": "q2", "text": "no gold"}\n', encoding="utf-8"
    )
    (folder / "qrels.tsv").write_text(qrels, encoding="utf-8")
    return folder


def test_a_folder_in_beirs_form_is_read(tmp_path: Path) -> None:
    data = load("beir", _beir(tmp_path, "query-id\tcorpus-id\tscore\n1\td1\t1\n1\td2\t0\n"))
    assert [item.content for item in data.items] == ["T\none", "two"]
    assert [(question.query, question.gold) for question in data.questions] == [("first?", ("d1",))]


@pytest.mark.parametrize(
    ("qrels", "said"),
    [
        ("1 d1 1\n", "0 questions"),
        ("query-id\tcorpus-id\tscore\n1\td1\n", "qrels.tsv: line 2: it must be query-id, corpus-id and score"),
        ("1\td9\t1\n", "'d9' is no item"),
    ],
)
def test_judgements_of_another_shape_are_refused(tmp_path: Path, qrels: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        load("beir", _beir(tmp_path, qrels))
    assert said in str(refused.value)


def test_questions_are_held_by_their_hash_and_those_of_a_conversation_together(dataset: Dataset) -> None:
    whole = sample()
    held, tune = (cut(whole, split=each, limit=None).questions for each in ("held", "tune"))
    assert 0.35 < len(held) / len(whole.questions) < 0.65
    assert sorted(each.query for each in (*held, *tune)) == sorted(each.query for each in whole.questions)
    talk = dataset.model_copy(update={"name": "locomo"})
    assert cut(talk, split="tune", limit=None) == talk
    with pytest.raises(InputError, match="no question is left"):
        cut(talk, split="held", limit=None)


def test_foreign_questions_go_to_the_groups_in_turn_and_have_no_answer(dataset: Dataset) -> None:
    foreign = with_foreign(dataset, ["bread", "tides", "chess"]).questions[len(dataset.questions) :]
    asked = [(each.query, each.group, each.gold) for each in foreign]
    assert asked == [("bread", "a", ()), ("tides", "b", ()), ("chess", "a", ())]


def test_the_hash_changes_with_the_content_and_not_with_the_name(dataset: Dataset) -> None:
    assert info_of(dataset).hash == info_of(dataset.model_copy(update={"name": "other"})).hash
    assert info_of(dataset).hash != info_of(cut(dataset, split="all", limit=2)).hash
