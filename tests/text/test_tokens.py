"""Texts: tokens, exact names, cleaning before storage, and whose words are in a prompt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_memory.tools.text.cleaning import clean, shorten
from swarm_memory.tools.text.intent import asks_each_time, blank_quotations, is_meant_once, own_words
from swarm_memory.tools.text.tokens import (
    MAX_TOKEN_CHARS,
    count_tokens,
    names_in,
    query_tokens,
    shares_a_name,
    tokenize,
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Running the tests", ("run", "test")),
        ("getUserName", ("getusernam", "get", "user", "name")),
        ("HTTPServer", ("httpserver", "http", "server")),
        ("snake_case_name", ("snake", "case", "name")),
        ("kebab-case", ("kebab", "case")),
        ("URLs and APIs", ("url", "api")),
        ("Python3 3D utf8", ("python3", "3d", "utf8")),
        ("getV2Items", ("getv2items", "get", "v2", "item")),
        ("don't the user's we've", ("user",)),
        ("naïve café", ("naiv", "cafe")),
        ("ﬁle \uff21\uff22\uff23", ("file", "abc")),
        ("中文分词", ("中文", "文分", "分词")),
        ("한국어", ("한국", "국어")),
        ("中", ("中",)),
        ("use中文now", ("use", "中文")),
        ("", ()),
        ("?! … 🙂", ()),
        ("who are you", ()),
        ("not without before after until", ("not", "without", "befor", "after", "until")),  # they reverse a strategy
    ],
)
def test_text_becomes_the_tokens_that_people_would_search_for(text: str, tokens: tuple[str, ...]) -> None:
    assert tokenize(text) == tokens


def test_kana_and_repeats_stay_apart_accents_fall_and_a_long_token_is_cut_alike_on_both_sides() -> None:
    assert tokenize("ガス") != tokenize("カス")
    assert tokenize("e\u0301te\u0301") == tokenize("été") == tokenize("ete")
    assert tokenize("test test retry test") == ("test", "test", "retri", "test")
    assert query_tokens("test test retry test") == ("test", "retri")
    blob = "0123456789abcdef" * 20
    (token,) = tokenize(blob)
    assert len(token) == MAX_TOKEN_CHARS
    assert tokenize(f"see {blob}.")[-1] == token


@given(st.text(max_size=300) | st.text(st.characters(categories=["Cs", "Mn", "Lo", "Ll", "Zs"]), max_size=100))
def test_a_token_has_only_letters_and_digits_and_is_short(text: str) -> None:
    for token in tokenize(text):
        assert token.isalnum()
        assert token == token.lower()
        assert len(token) <= MAX_TOKEN_CHARS
    assert count_tokens(text) >= 0


@pytest.mark.parametrize(
    ("text", "at_least", "at_most"),
    [
        ("Load the page and parse the token.", 8, 14),
        ("def f(x):\n    return {x[0]: y}\n", 12, 24),
        ("中文分词很难", 6, 12),
        ("", 0, 0),
        ("🙂🙂", 4, 8),
        ("3f9a8b7c6d5e", 6, 16),
    ],
)
def test_the_estimate_of_model_tokens_is_near_and_rather_high(text: str, at_least: int, at_most: int) -> None:
    assert at_least <= count_tokens(text) <= at_most


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Always `sh release.sh signed`", {"sh release.sh signed", "release.sh"}),
        ("Look into ./src/app.py and --dry-run of make_all", {"src/app.py", "--dry-run", "make_all"}),
        ("Read docs/guide/ first, not a/b/c", {"docs/guide/", "a/b/c"}),
        ("Answer in German and/or English, e.g. shortly. Use CI/CD. Say yes/no", set[str]()),
        ("Ship it. Then rest.", set[str]()),
    ],
)
def test_files_commands_and_identifiers_are_names_and_plain_words_are_none(text: str, names: set[str]) -> None:
    assert names_in(text) == names


def test_two_texts_share_a_name_however_it_is_marked() -> None:
    assert shares_a_name("Make the release with release.sh.", "Always `sh release.sh signed`")
    assert shares_a_name("Run make test", "Use `make test` for that")
    assert not shares_a_name("Show the badge: `sh badges.sh`", "Always `sh release.sh signed`")


@pytest.mark.parametrize(
    ("dirty", "expected"),
    [
        ("plain ünïcode 你好 👍🏽\n\ttab", "plain ünïcode 你好 👍🏽\n\ttab"),
        ("a\x00b\x07c\x7f", "abc"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("\x1b[1;31mred\x1b[0m \x1b]0;title\x07text\x1b(B", "red text"),
        ("\x9b31mred", "red"),
        ("x\ud800y\udfff", "x\ufffdy\ufffd"),
        ("\ud83d\ude00", "😀"),
        ("a\u202eb\u2066c\u200bd\ufeffe\u00adf", "abcdef"),
        ("visible\U000e0041\U000e007f", "visible"),
        ("\ufffe\uffff\ufdd0", ""),
        ("e\u0301", "e\u0301"),
        ("z" + "\u0301" * 1000, "z" + "\u0301" * 8),
    ],
)
def test_what_cannot_be_seen_or_stored_goes(dirty: str, expected: str) -> None:
    assert clean(dirty) == expected


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=200))
def test_every_text_becomes_valid_and_cleaning_twice_changes_nothing(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert "\0" not in cleaned
    assert clean(cleaned) == cleaned


def test_a_shortened_text_is_no_longer_than_asked_says_how_much_is_gone_and_keeps_both_ends() -> None:
    text = "begin " + "x" * 500 + " end"
    for max_chars in (1, 20, 50, 200):
        assert len(shorten(text, max_chars)) <= max_chars
        assert shorten(text[:max_chars], max_chars) == text[:max_chars]
    short = clean(text, 100)
    assert (short[:5], short[-3:], "characters left out" in short) == ("begin", "end", True)


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
    assert blank_quotations(text) == 'Add the line "             " to `        `, don\'t wait'


@pytest.mark.parametrize(
    ("sentence", "asks"),
    [
        ("Never saw this error before", False),
        ("Always fails on Mondays", False),
        ("Never worked for me", False),
        ("Immer noch derselbe Fehler", False),
        ("Immer wieder rot", False),
        ("测试总是失败", False),
        ("总是报错", False),
        ("升级以后测试失败", False),
        ("It always crashes", False),
        ("Never push to main", True),
        ("Always pass `-q`", True),
        ("please always process files in order", True),
        ("Tests: always run them twice", True),
        ("Immer alles prüfen", True),
        ("请总是使用 pnpm", True),
        ("好的\uff0c以后用中文", True),
    ],
)
def test_an_imperative_about_each_time_is_a_request_and_how_things_are_is_none(sentence: str, *, asks: bool) -> None:
    assert asks_each_time(sentence) is asks


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
