"""Datasets: each published form is read, faults name their place; labelled trajectories and rated items."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from patience import HANG_S

from swarm_memory.schema.benchmark import Dataset
from swarm_memory.schema.errors import InputError
from swarm_memory.tools.benchmark.retrieval.datasets import cut, info_of, locomo, longmemeval, note_of, sample
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


def test_locomo_is_read_by_turns_with_captions_and_times_or_by_sessions() -> None:
    data = locomo(_conversation(), "f.json", [])
    assert [item.content for item in data.items] == ["Ann: word1", "Ann: word2 a red bike"]
    assert {item.part for item in data.items} == {"D1"}
    assert f"{data.items[0].time:%Y-%m-%d %H:%M}" == "2023-05-08 13:56"
    (question,) = data.questions
    assert (question.gold, question.answer, question.category) == (("D1:2",), "2022", "single-hop")
    skipped: list[str] = []
    data = locomo(_conversation(), "f.json", skipped, by_session=True)
    (item,) = data.items
    assert (item.id, item.content) == ("D1", "Ann: word1\nAnn: word2 a red bike")
    assert [each.gold for each in data.questions] == [("D1",)]
    assert skipped == ["f.json[0].qa[1].evidence: it names nothing that was said"]


def test_a_longmemeval_session_becomes_a_document_and_a_question_without_an_answer_has_no_gold() -> None:
    data = longmemeval([_record(), _record("q2_abs")], "f.json", [])
    assert data.items[0].content == "user: I like tea.\nassistant: Noted."
    assert f"{data.questions[0].now:%Y-%m-%d %H:%M}" == "2023-05-30 23:40"
    assert [question.gold for question in data.questions] == [("s1",), ()]
    assert data.questions[1].category == "abstention"


WITHOUT_TEXT = [{"speaker": "Ann", "dia_id": "D1:1"}]
PARTS = "haystack_session_ids, haystack_dates and haystack_sessions"


@pytest.mark.parametrize(
    ("read", "value", "said"),
    [
        (locomo, {}, "f.json: Input should be a valid"),
        (locomo, _conversation(session_1=WITHOUT_TEXT), "f.json[0].conversation.session_1[0].text"),
        (locomo, _conversation(session_1_date_time="yesterday"), "session_1_date_time: 'yesterday' is not a date"),
        (locomo, EMPTY_TALK, "0 items"),
        (longmemeval, [_record(haystack_dates=[])], f"f.json[0]: {PARTS} differ"),
        (longmemeval, [_record(question_date="soon")], "f.json[0].question_date: 'soon' is not a date"),
        (
            longmemeval,
            [_record(haystack_sessions=[[{"role": "user"}]])],
            "f.json[0].haystack_sessions[0][0].content: Field required",
        ),
    ],
)
def test_a_published_file_of_another_shape_is_refused_with_the_place(
    read: Callable[[object, str, list[str]], Dataset], value: object, said: str
) -> None:
    with pytest.raises(InputError) as refused:
        read(value, "f.json", [])
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"items": {}}, "tiny.json.items: Input should be a valid tuple"),
        ({"colour": 1}, "tiny.json.colour: Extra inputs"),
        ({"questions": [{"query": "q", "gold": ["zz"]}]}, "a question's gold 'zz' is not an item of group ''"),
        ({"questions": [{"gold": ["x"]}]}, "tiny.json.questions[0].query: Field required"),
        ({"items": [{"id": "x", "content": "y", "colour": 1}]}, "tiny.json.items[0].colour: Extra inputs"),
    ],
)
def test_a_normalized_file_that_cannot_be_asked_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    file = tmp_path / "tiny.json"
    good = {"name": "t", "items": [{"id": "x", "content": "y"}], "questions": [{"query": "q", "gold": ["x"]}]}
    file.write_text(json.dumps(good | change), encoding="utf-8")
    with pytest.raises(InputError) as refused:
        load("file", file, [])
    assert said in str(refused.value)


def test_a_row_that_cannot_be_asked_is_left_out_and_named(tmp_path: Path) -> None:
    rows = {
        "name": "t",
        "items": [{"id": "x", "content": "y"}, {"id": "x", "content": "z"}],
        "questions": [{"query": "q", "gold": ["x"]}, {"query": "r", "gold": ["x", "5"]}],
    }
    (tmp_path / "f.json").write_text(json.dumps(rows), encoding="utf-8")
    skipped: list[str] = []
    assert len(load("file", tmp_path / "f.json", skipped).questions) == 1
    said = ["id 'x' already appears in group ''", "a question's gold '5' is not an item of group ''"]
    assert skipped == [f"f.json: {each}" for each in said]
    (note,) = note_of(["a", *skipped * 3])
    assert note.startswith("7 rows left out: a; ")
    assert note.endswith("; …")


def test_what_is_no_json_is_refused_with_line_and_column(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text('{"name":\n oops}', encoding="utf-8")
    with pytest.raises(InputError, match=r"bad\.json: this is not JSON: .* line 2, column 2"):
        load("file", file, [])
    with pytest.raises(InputError, match="cannot be read"):
        load("file", tmp_path / "none.json", [])
    with pytest.raises(InputError, match="needs a path"):
        load("locomo", None, [])


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
    data = load("beir", _beir(tmp_path, "query-id\tcorpus-id\tscore\n1\td1\t1\n1\td2\t0\n"), [])
    assert [item.content for item in data.items] == ["T\none", "two"]
    assert [(question.query, question.gold) for question in data.questions] == [("first?", ("d1",))]


GOOD = "1\td1\t1\n"


@pytest.mark.parametrize(
    ("qrels", "line", "said"),
    [
        ("1 d1 1\n", "", "0 questions"),
        ("query-id\tcorpus-id\tscore\n1\td1\n", "", "qrels.tsv: line 2: it must be query-id, corpus-id and score"),
        ("1\td9\t1\n", "", "'d9' is not an item"),
        (GOOD, '{"_id": "d3"}', "corpus.jsonl: line 3.text: Field required"),
        (GOOD, "no JSON", "line 3: this is not JSON"),
    ],
)
def test_a_folder_in_another_form_than_beirs_is_refused_with_the_place(
    tmp_path: Path, qrels: str, line: str, said: str
) -> None:
    with (_beir(tmp_path, qrels) / "corpus.jsonl").open("a", encoding="utf-8") as corpus:
        corpus.write(line)
    with pytest.raises(InputError) as refused:
        load("beir", tmp_path, [])
    assert said in str(refused.value)


def test_questions_of_an_odd_hash_are_held_and_the_split_is_in_the_name(dataset: Dataset) -> None:
    whole = sample()
    held, tune = (cut(whole, split=each, limit=None) for each in ("held-hash", "tune-hash"))
    assert (held.name, tune.name) == (f"{whole.name}-held-hash", f"{whole.name}-tune-hash")
    assert 0.35 < len(held.questions) / len(whole.questions) < 0.65
    queries = sorted(each.query for part in (held, tune) for each in part.questions)
    assert queries == sorted(each.query for each in whole.questions)
    talk = dataset.model_copy(update={"name": "locomo"})
    assert cut(talk, split="tune-hash", limit=None).questions == talk.questions
    with pytest.raises(InputError, match="no questions are left with split held-hash"):
        cut(talk, split="held-hash", limit=None)


def test_the_hash_changes_with_the_content_and_not_with_the_name(dataset: Dataset) -> None:
    assert info_of(dataset).hash == info_of(dataset.model_copy(update={"name": "other"})).hash
    assert info_of(dataset).hash != info_of(cut(dataset, split="all", limit=2)).hash


SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "judge_evidence.py"

RAN = (("pytest -q", 1, "1 failed in 0.10s"), ("sed -i s/-/+/ sums.py", 0, ""), ("pytest -q", 0, "1 passed in 0.10s"))
REACT = "Who wrote it?\nThought 1: I search.\nAction 1: Search[it]\nObservation 1: Ann.\nAction 2: Finish[Ann]"


def in_fence(command: str, code: int, output: str) -> list[dict[str, Any]]:
    """Return a command at the end of a message, and the answer of a harness in the user's role."""
    return [
        {"role": "assistant", "content": f"THOUGHT: Go on.\n\n```bash\n{command}\n```"},
        {"role": "user", "content": f"<returncode>{code}</returncode>\n<output>\n{output}\n</output>"},
    ]


def after_mark(command: str, code: int, output: str) -> list[dict[str, Any]]:
    """Return a command as a JSON call after a mark, and the tool's result."""
    call = {"id": f"c{command}{code}", "function": {"name": "Bash", "arguments": json.dumps({"command": command})}}
    return [
        {"role": "assistant", "content": f"I go on.\n[tool_calls] {json.dumps([call])}"},
        {"role": "tool", "tool_call_id": call["id"], "content": f"{output}\nexit code: {code}"},
    ]


def edited(old: str, new: str, code: int, output: str) -> list[dict[str, Any]]:
    """Return an edit as a block, and the harness's report that it was applied and how its test script ended."""
    block = f"sums.py\n```python\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n```"
    script = f"Test Script: pytest -q tests/test_sums.py;\n{output}\n[env] [sums-1] Return Code: {code}\n"
    return [
        {"role": "assistant", "content": f"The sign is wrong.\n\n{block}"},
        {"role": "tool", "content": f"Applied edit to sums.py\n\n{script}"},
    ]


def test_commands_in_texts_are_judged_by_their_results(tmp_path: Path) -> None:
    given = {
        "fenced": [message for each in RAN for message in in_fence(*each)],
        "marked": [message for each in RAN for message in after_mark(*each)],
        "blocks": edited("a - b", "b - a", 1, "1 failed in 0.10s") + edited("b - a", "-a - b", 1, "1 failed in 0.10s"),
        "react": [{"role": "transcript", "content": REACT}],
    }
    records = [
        {"id": f"{name}-{number}", "task": "Fix the sign of add()", "success": True, "steps": steps}
        for name, steps in given.items()
        for number in range(2)
    ]
    (tmp_path / "known.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    command = [sys.executable, str(SCRIPT), "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=True)
    assert "known.jsonl: n=8 {'Failure': 2, 'Success': 4, 'Undecided': 2}" in done.stdout
