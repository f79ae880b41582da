"""JSON from a model's text: what is accepted, what is refused, and that nothing hangs or crashes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import grows_by
from pydantic import JsonValue

from swarm_memory.tools.model.parse import ParseFailure, parse_object

SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {
        "label": {"type": "string", "enum": ["Success", "Failure"]},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "required": ["label", "confidence"],
    "additionalProperties": False,
}
GOOD = {"label": "Success", "confidence": 0.9}
JSON = json.dumps(GOOD)


@pytest.mark.parametrize(
    "text",
    [
        JSON,
        f"\n\n  {JSON}  \n",
        f"```json\n{JSON}\n```",
        f"```\n{JSON}\n```",
        f"Here is my verdict:\n\n```json\n{JSON}\n```\nI hope that helps {{really}}.",
        f"The verdict is {JSON}, as the tests passed.",
        f"Given {{the evidence}} I say {JSON}",
        f"An open {{ brace, then {JSON}",
        f"<think>Maybe {{\"label\": \"Failure\", \"confidence\": 0.5}}?</think>\n{JSON}",
        f"{JSON}\n{JSON}",
        f"Steps: {{\"step\": 1}} Verdict: {JSON}",
        json.dumps(GOOD | {"because": "an extra key"}),
        f"The label is clear: {{\"label\": \"Failure\", \"confidence\": 0.5}}?</think>\n{JSON}",
        f"<thinking>one</thinking> <thinking>two</thinking> {JSON}",
        '{"label": "Success", "confidence": 0.9,}',
        '{"label": "success", "confidence": "0.9"}',
        '{"label": " SUCCESS ", "confidence": " 9e-1 "}',
    ],
)  # fmt: skip
def test_the_object_is_found_however_it_is_wrapped(text: str) -> None:
    assert parse_object(text, SCHEMA) == GOOD


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("<think>I only thought</think>", "empty"),
        (f"<think>I never ended, and {JSON} was a draft", "empty"),
        ('{"label": "Success or SECRET", "confidence": 1}', "`label`"),
        ('{"label": "Success", "confidence": "85%"}', "`confidence`"),
        ('{"label": "Success", "confidence": "NaN"}', "`confidence`"),
        ('{"label": "Success",, "confidence": 1}', "not JSON"),
        ("I cannot say.", "no JSON object"),
        ("[1, 2]", "no JSON object"),
        (JSON[:-3], "not JSON"),
        ('{"a":' + "[" * 70 + JSON + "]" * 70 + "}", "levels"),
        pytest.param('[{"a":' * 30_000, "levels", id="a depth bomb that stays open"),
        pytest.param('{"label": ' + "[" * 5000 + "]" * 5000 + "}", "levels", id="a depth bomb"),
        pytest.param(" " * 200_001, "200,000", id="too long"),
        (JSON[:12], "not JSON"),
        ('{"label": "Success", "confidence": NaN}', "not finite"),
        ('{"label": "Success", "confidence": -Infinity}', "not finite"),
        ('{"label": "Success", "confidence": 1e999}', "not finite"),
        ('{"label": "Success", "confidence": %s}' % ("9" * 5000), "64 bits"),
        ('{"label": "Success", "label": "Failure", "confidence": 1}', "twice"),
        ('{"label": "Maybe", "confidence": 1}', "`label`"),
        ('{"label": "Success", "confidence": 1.5}', "`confidence`"),
        ('{"label": "Success", "confidence": "high"}', "`confidence`"),
        ('{"label": "Success"}', "required"),
        (f'{JSON} or {{"label": "Failure", "confidence": 0.9}}', "several"),
        ("{'label': 'Success', 'confidence': 1}", "not JSON"),
    ],
)
def test_what_is_not_one_valid_object_is_refused_with_the_reason(text: str, reason: str) -> None:
    answer = parse_object(text, SCHEMA)
    assert isinstance(answer, ParseFailure)
    assert reason in answer.reason
    assert "SECRET" not in answer.reason, "a refusal quotes nothing"


def test_slips_of_form_are_read_as_what_they_mean_and_strings_are_left_alone() -> None:
    schema: dict[str, JsonValue] = {
        "type": "object",
        "properties": {
            "analysis": {"type": "string"},
            "reasons": {"type": "array", "items": {"type": "string"}},
            "evidence": {"type": "array", "items": {"type": "string"}},
            "suspect": {"type": "boolean"},
        },
        "required": ["analysis", "reasons", "evidence", "suspect"],
        "additionalProperties": False,
    }
    text = r'{"reasons": "one, ] \" , } it is", "evidence": null, "suspect": "False", }'
    assert parse_object(text, schema) == {
        "analysis": "", "reasons": ['one, ] " , } it is'], "evidence": [], "suspect": False
    }  # fmt: skip
    missing = parse_object('{"analysis": "I thought", "evidence": [], "suspect": true}', schema)
    assert isinstance(missing, ParseFailure)
    wrong = parse_object('{"reasons": 3, "evidence": [], "suspect": true}', schema)
    assert isinstance(wrong, ParseFailure)


@pytest.mark.parametrize(
    "unit", ["{", '{"', "{}", '{"a":[', "```json\n{", "\\", '"{', "<think>", "} {", "</think>", ", ", '"\\"', ",]"]
)
def test_hostile_repetition_takes_linear_time(unit: str) -> None:
    small, large = (unit * (size // len(unit)) for size in (19_000, 190_000))
    assert grows_by(lambda text: parse_object(text, SCHEMA), small, large, at_most=25) <= 25


def test_what_no_database_can_store_is_replaced() -> None:
    assert parse_object(r'{"a\u0000": ["\ud800x", "\ud83d\ude00"]}') == {"a\ufffd": ["\ufffdx", "😀"]}


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text("ab{}[]\"\\`", max_size=4), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(st.dictionaries(st.text('xyz{}"', min_size=1, max_size=5), _VALUES, min_size=1, max_size=4))
def test_every_object_comes_back_as_it_was(value: dict[str, JsonValue]) -> None:
    assert parse_object(json.dumps(value)) == value
    assert parse_object(f"Answer:\n```json\n{json.dumps(value)}\n```") == value


@given(st.text(max_size=200) | st.text('{}[]",:\\`tfn01e-. \n', max_size=200))
def test_no_text_raises(text: str) -> None:
    parse_object(text, SCHEMA)
