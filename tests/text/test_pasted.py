"""Whose words are in a prompt: its writer's, or those of what was pasted, quoted or reported."""

import pytest

from swarm_memory.tools.text.requests import asks_each_time, is_meant_once, own_words, without_quotations

MAIL = "From: Bob Stone\nSubject: Releases\n\nHi all,\n\nalways deploy on Fridays.\n\nBob"


@pytest.mark.parametrize(
    ("prompt", "own"),
    [
        ("Fix this:\n```\nalways run x\n```\nThen run the tests.", "Fix this:\nThen run the tests."),
        ("Fix this:\n~~~ log\nalways run x", "Fix this:"),
        ("What is meant?\n> always run x\n> never y", "What is meant?"),
        ("Solve it.\n<issue>\nalways run x\n</issue>", "Solve it."),
        (f"Answer this, please.\n\n{MAIL}", "Answer this, please."),
        ("Look.\n\nOn Monday, 3 May, Bob wrote:\nalways run x", "Look."),
        ("Look.\nAnna Berg 10:32 AM\nalways run x", "Look."),
        ("Why?\n2026-05-03 10:01:02 always run x\n[WARN] never y\nnpm WARN old: always z", "Why?"),
        ("Why?\n$ make\nmain.c:12: always close it\nerror[E0382]: never move it", "Why?"),
        ("This is the output:\n\nthe cache is old\n\nalways clear it first", "This is the output:"),
        ("Das steht in der Doku:\nimmer zuerst bauen", "Das steht in der Doku:"),
        ("日志如下:\n以后请重启", "日志如下:"),
        ("The README says: always run x. Do that.", "The README . Do that."),
        ('It prints "Never do x. Always do y." here.', "It  here."),
        ("Bob said we should use npm", "Bob"),
        ("Der Chef schrieb, wir nehmen npm. Nimm pnpm.", "Der Chef . Nimm pnpm."),
    ],
)
def test_what_is_set_off_or_said_of_another_is_not_ones_own(prompt: str, own: str) -> None:
    assert own_words(prompt) == own


@pytest.mark.parametrize(
    "prompt",
    [
        "Remember:\n> we use pnpm",
        "From now on run this before the tests:\n```\nmake seed\n```",
        "Some rules:\n- always run `make format`\n  and look at the difference\n- never push",
        "I told you: always use pnpm",
        "It shows wrong prices, use Decimal",
        "As I said, never push to main",
        "Error handling: always return a Result",
        "Use Vec<String> here, and\n<Button> there",
        "To: nobody in particular",
        "Note: we use pnpm",
        "Write that down, and show it to me",
    ],
)
def test_what_nothing_sets_off_or_one_asks_to_be_kept_is(prompt: str) -> None:
    assert own_words(prompt) == prompt


def test_what_is_quoted_is_named_and_not_said() -> None:
    text = 'Add the line "Always run x." to `never.md`, don\'t wait'
    assert without_quotations(text) == 'Add the line "             " to `        `, don\'t wait'


@pytest.mark.parametrize(
    "sentence",
    [
        "Never saw this error before",
        "Always fails on Mondays",
        "Never worked for me",
        "Immer noch derselbe Fehler",
        "Immer wieder rot",
        "测试总是失败",
        "总是报错",
        "升级以后测试失败",
        "It always crashes",
    ],
)
def test_how_things_are_is_no_request_though_it_says_always(sentence: str) -> None:
    assert not asks_each_time(sentence)


@pytest.mark.parametrize(
    "asked",
    [
        "Never push to main",
        "Always pass `-q`",
        "please always process files in order",
        "Tests: always run them twice",
        "Immer alles prüfen",
        "请总是使用 pnpm",
        "好的\uff0c以后用中文",
    ],
)
def test_an_imperative_about_each_time_is(asked: str) -> None:
    assert asks_each_time(asked)


@pytest.mark.parametrize(
    ("said", "once"),
    [
        ("Don't run the tests this time", True),
        ("just this once, use npm", True),
        ("Use npm for now", True),
        ("Diesmal ohne Tests", True),
        ("这次不要运行测试", True),
        ("Remember this for the next time", False),
        ("Run it once before each release", False),
        ("Use this branch", False),
    ],
)
def test_what_is_asked_for_this_time_only_is_known(said: str, *, once: bool) -> None:
    assert is_meant_once(said) is once
