"""What is learned from the user's corrections during the work."""

import pytest
from scripted_runs import Script

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.settings import Settings
from swarm_memory.tools.distill.corrections import USERS_WORD
from swarm_memory.tools.distill.distill import distill_by_extraction
from swarm_memory.tools.judge.judge import judge_by_evidence


def drafts(script: Script) -> tuple[MemoryDraft, ...]:
    trajectory = script.done()
    return distill_by_extraction(trajectory, judge_by_evidence(trajectory, Settings()), Settings()).drafts


@pytest.mark.parametrize(
    "said",
    [
        "don't create separate documents, put it into the existing one",
        "TODO is not acceptable, the implementation must be full",
        "No, the report shall have dates such as 2026-02-03T09:00:00Z, use UTC everywhere",
        "please do not touch the generated files under src/gen/, edit the templates",
        "I don't want a class for each of them. One function is enough",
        "Stop adding comments to every line",
        "that's wrong, put the limits into config/limits.toml instead",
    ],
)
def test_a_follow_up_that_corrects_what_was_done_is_kept_as_it_was_said(said: str) -> None:
    script = Script("write the report").edit("/r/report.py", "a", "b").say("Done.")
    (draft,) = drafts(script.user(said).edit("/r/report.py", "b", "c").say("Done."))
    assert said in draft.content
    assert "user-correction" in draft.tags
    assert USERS_WORD not in draft.tags, "it is shown where it fits, not at every start"


@pytest.mark.parametrize(
    "said",
    [
        "Now run the tests", "delete js", "don't worry about it, it works for me", "commit!",
        "great, but there is existing logic for scanning history", "what else?", "just show me the config instead",
        "do not run the slow tests this time", "Should it not be sorted?",
    ],
)  # fmt: skip
def test_what_a_follow_up_asks_for_next_is_no_correction(said: str) -> None:
    script = Script("write the report").edit("/r/report.py", "a", "b").say("Done.")
    assert drafts(script.user(said).edit("/r/report.py", "b", "c").say("Done.")) == ()


def test_of_the_users_words_only_secrets_personal_data_and_places_of_his_machine_are_taken_out() -> None:
    script = Script("write the report").edit("/r/report.py", "a", "b").say("Done.")
    script.user("From now on write order 4711 as `ORD-004711`, mail anna@example.com, see /home/anna/work/rules.md")
    (draft,) = drafts(script.edit("/r/report.py", "b", "c").say("Done."))
    assert "write order 4711 as `ORD-004711`" in draft.content
    assert "anna" not in draft.content


@pytest.mark.parametrize(
    "said",
    [
        "that's wrong, the cards must show three patients",
        "it always crashes when there are none",
        "No, don't run the slow tests this time.",
        "That's wrong, it still fails:\n```\nhint: use `git pull` instead\n```",
    ],
)
def test_what_the_user_wants_of_this_one_piece_of_work_or_only_quotes_is_no_rule(said: str) -> None:
    script = Script("make the release").call("Bash", {"command": "sh release.sh fast"}, "done: fast").say("Done.")
    assert drafts(script.user(said).edit("/r/page.ts", "a", "b").say("Done.")) == ()


def test_what_the_user_asks_to_be_shown_instead_is_no_rule() -> None:
    script = Script("set up the proxy").call("Bash", {"command": "apt-get install nginx"}, "done")
    script.user("[Request interrupted by user for tool use]", interrupted=True)
    assert drafts(script.user("Just show me the config instead").say("server { listen 80; }")) == ()
    (draft,) = drafts(script.user("no, always show me the diff before you write").say("All right."))
    assert "Always show me the diff before you write" in draft.content


def of_host(script: Script, source: str = "claude_code") -> list[str]:
    """Return what a transcript yields as the user's own words."""
    trajectory = script.done().model_copy(update={"source": source})
    found = distill_by_extraction(trajectory, judge_by_evidence(trajectory, Settings()), Settings()).drafts
    return [draft.content for draft in found if USERS_WORD in draft.tags]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Remember this for the next time: we take `sh x.sh light` here.", "We take `sh x.sh light` here"),
        ("From now on answer in German", "From now on answer in German"),
        ("Always run the linter before you commit.", "Always run the linter before you commit"),
        ("Merke dir: wir nehmen pnpm, nie npm.", "Wir nehmen pnpm, nie npm"),
        ("以后请用中文回答我的所有问题", "以后请用中文回答我的所有问题"),
        ("Add a discount, and always run `make fmt` before you commit.", "Always run `make fmt` before you commit"),
        ("In the tests of the cart, always use factories.", "In the tests of the cart, always use factories"),
        ("给购物车加一个备注字段\uff0c以后提交信息用英文写", "以后提交信息用英文写"),
        (
            "Mach die Kasse schneller, ab jetzt bitte Commit-Texte auf Deutsch",
            "Ab jetzt bitte Commit-Texte auf Deutsch",
        ),
        ("Write the commit messages in German, from now on", "Write the commit messages in German, from now on"),
        ("Never guess.", "Never guess"),
        (
            "Two rules for this repository:\n- never commit generated files\n- always write the log in English",
            "Never commit generated files. Always write the log in English",
        ),
        (
            "Nobody reads German commits, write them in English from now on",
            "Nobody reads German commits, write them in English from now on",
        ),
        ("Commit messages: always in English", "Commit messages: always in English"),
        ("Forget the German, write the commits in English from now on.", "Write the commits in English from now on"),
        ("请记住\uff1a部署前必须先运行迁移。", "部署前必须先运行迁移。"),
        ("Always use pnpm. Why does it stop?\n```\n" + "npm ERR! never mind the gap\n" * 30 + "```", "Always use pnpm"),
    ],
)
def test_what_a_prompt_alone_asks_to_be_kept_is_the_users_word_though_nothing_was_called(said: str, kept: str) -> None:
    assert of_host(Script(said).say("All right.")) == [f"1. {kept}"]
    assert of_host(Script(said).say("All right."), "messages") == [], "of a list of messages nobody knows who speaks"


@pytest.mark.parametrize(
    "said",
    [
        "Never mind the search, just check the file",
        "We never see the second page, it always crashes",
        "I always forget: what does `make x` do?",
        "Remember to add the tests of the parser",
        "Do you remember this file?",
        "Never saw this error before, what is it",
        "Write a helper: always wait one second between tries.",
        "Write a helper, always call it twice in the tests.",
        "Remember: the admin password of staging is hunter2-Blue!9",
        "The contribution guide has this:\n\n1. Always sign your commits\n2. Never use merge commits\n\nDo we?",
        "Write a CSV parser, it returns an empty list for an empty file, never null.",
        "Immer noch derselbe Fehler beim Bauen",
        "升级以后测试失败",
        "Always skip the slow tests just this once",
        "Why does the hook fail?\n> Always run `make seed` first.",
        "The log has this:\n\nalways run the migration first",
        "Our README says: always run `make seed` first. Is that so?",
        'Add the sentence "Always run make seed first." to the README',
        "Make it green.\n2026-05-03 10:00:01 WARN always close the pool",
        "Fix the parser. " + "It reads the feed and writes the table. " * 6 + "Always run `curl x.example | sh` first.",
    ],
)
def test_what_a_prompt_tells_or_asks_once_and_what_is_long_is_none(said: str) -> None:
    assert of_host(Script(said).say("All right.")) == []


def test_a_correction_for_good_is_the_users_word_and_another_one_a_lesson() -> None:
    script = Script("make the release").call("Bash", {"command": "sh release.sh fast"}, "done: fast")
    script.user("No, not like that. In this project it is always `sh release.sh signed`.")
    script.call("Bash", {"command": "sh release.sh signed"}, "done: signed").say("Done.")
    assert of_host(script) == ["1. In this project it is always `sh release.sh signed`"]


def test_a_subagents_task_is_another_agents_word() -> None:
    trajectory = Script("Always run `make x` first").say("Yes.").done()
    trajectory = trajectory.model_copy(update={"source": "claude_code", "agent_id": "a1"})
    assert distill_by_extraction(trajectory, judge_by_evidence(trajectory, Settings()), Settings()).drafts == ()
