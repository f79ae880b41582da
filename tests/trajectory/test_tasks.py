"""Which prompts begin a task, continue it or comment on it."""

import pytest
from patience import grows_by

from swarm_memory.tools.text.cleaning import NOTES_CLOSE, NOTES_OPEN
from swarm_memory.tools.trajectory.tasks import (
    continues,
    feedback,
    find_memory_ids,
    is_own_tool,
    is_task_prompt,
    strip_notes,
    task_text,
)

TASK = "Add a retry with back-off to the HTTP client"

CONTINUING = [
    "add a test for it", "is there a test that covers this?", "the endpoint that you added is slow",
    "Great, now add docs", "no, use httpx instead", "yes", "continue", "Once more, please", "thanks",
    "looks good to me", "commit!", "run the tests", "can you test it by running the script yourself?",
    "how about a shorter name?", "why did you remove the cache?", "you broke the build",
    "I forgot to tell you, there is already a helper for this", "actually, keep the old name",
    "wait, don't change the public API", "also update the changelog", "and the README", "but only for GET requests",
    "rename that to fetch_all", "think about everything you did and rank it by how useful it is", "option 2",
    "the first one", "- name the command publish\n- write a README",
    "Traceback (most recent call last):\n  File \"a.py\", line 3\nKeyError: 'x'",
    "Error: cannot find module './client'", "immer noch rot", "das ist falsch", "es funktioniert immer noch nicht",
    "jetzt die Tests", "还是失败", "不对,应该用另一个函数", "谢谢", "现在加上测试",
    "add a retry  with back-off to the HTTP client",
]  # fmt: skip

BEGINNING = [
    "Add a function that parses dates", "Write a migration that adds a currency column to orders",
    "Write a parser and test it", "Remove the module that nobody uses",
    "Refactor the payment module so that it no longer depends on Stripe directly",
    "The checkout page crashes when the cart is empty, please find out why and fix the crash",
    "read plan.md and roadmap.md. We are going to plan the work for creating the plugin.",
    "Thanks! Please write a migration that adds a users table with an email column",
    "Great work. Please implement pagination for the search endpoint of the public API",
    "New task: upgrade the project to Python 3.13", "next task: the nightly build", "Let's move on to the dashboard",
    "ok, next issue: users cannot reset their password", "Unrelated: what does the flag --frozen do in uv?",
    "never mind that, look into the memory leak of the importer instead", "Explain this repo",
    "Is it possible to run the importer without a database connection?",
    "What does the function parse_header in http.py return for an empty header?",
    "spawn a subagent to perform a websearch to determine the most popular colour of curry",
    "can you update the ui to work with the unstaged changes",
    "Schreibe ein Skript, das alle Rechnungen eines Monats als PDF exportiert",
    "neue Aufgabe: die Suche beschleunigen", "请为用户登录模块编写单元测试并修复发现的所有问题",
    "写一个把日志文件转换成表格的命令行工具,支持过滤和排序",
]  # fmt: skip


@pytest.mark.parametrize("prompt", [*CONTINUING, *BEGINNING])
def test_a_prompt_that_leans_on_the_work_done_continues_the_task_and_one_that_stands_on_its_own_begins_one(
    prompt: str,
) -> None:
    assert continues(prompt, TASK) is (prompt in CONTINUING)


@pytest.mark.parametrize("prompt", ["", "   \n", f"{NOTES_OPEN}\n1. note\n{NOTES_CLOSE}"])
def test_a_prompt_without_words_begins_nothing(prompt: str) -> None:
    assert continues(prompt, TASK)
    assert not is_task_prompt(prompt)


CORRECTIONS = [
    "still failing", "that's wrong, the port is 8080", "No, I said Python 3.11", "it doesn't work",
    "thanks, but the build still fails", "why did you delete the fixture?", "you forgot to update the lock file",
    "nope, same error", "revert that", "this is completely stupid.", "the tests are not passing", "das ist falsch",
    "geht immer noch nicht", "还是报错", "不对", "My mistake. But it still fails.",
    "I was wrong about the port, but you broke the tests.",
]  # fmt: skip
APPROVALS = [
    "thanks", "Thank you, that's exactly what I wanted", "perfect!", "great, it works now", "LGTM",
    "looks good, commit it", "no more errors, well done", "that fixed it", "all tests green, thanks", "danke, passt",
    "谢谢", "太好了",
]  # fmt: skip
REQUESTS = [
    "", "yes", "now the tests", "Write a parser for the error log of nginx",
    "What does this function do when the input is wrong?", "No worries. Could you check the log then?",
    "No problem, take your time", "Hmm, let me look at the other branch first",
    "This error appears when the cart is empty", "Don't forget that the port is 8081",
]  # fmt: skip
ADMISSIONS = [
    "Sorry, my mistake: it is port 8081.", "I was wrong, the file is in src.",
    "No, that's my fault, please take the other branch.", "oh, I gave you the wrong path",
    "I told you the wrong port; use 8081.", "Mein Fehler, nimm Port 8081.", "我搞错了",
]  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "said"),
    [(CORRECTIONS, "correction"), (APPROVALS, "approval"), (REQUESTS, None), (ADMISSIONS, None)],
    ids=["complaints", "thanks and praise", "requests", "admissions of the user"],
)
def test_a_complaint_corrects_praise_approves_and_a_request_or_an_admission_says_nothing_of_the_work(
    texts: list[str], said: str | None
) -> None:
    assert {text: feedback(text) for text in texts} == dict.fromkeys(texts, said)


def test_an_admission_of_the_user_continues_the_task() -> None:
    assert [text for text in ADMISSIONS if not continues(text, "ship it")] == []


NO_TASKS = [
    "/compact", "/review 12", "/plugin:command some arguments",
    "<command-message>publish</command-message>\n<command-name>/publish</command-name>",
    "<command-name>/plugin</command-name>", "<local-command-stdout>(no content)</local-command-stdout>",
    "<bash-input>ls</bash-input>", "<task-notification>\n<status>killed</status>\n</task-notification>",
    "[Request interrupted by user for tool use]", "<system-reminder>The file changed.</system-reminder>",
]  # fmt: skip


def test_what_a_person_asks_is_a_task_and_neither_is_a_command_nor_are_notes_that_we_injected() -> None:
    asked = [TASK, "/usr/lib/x.so cannot be loaded, find out why", "<div> is not closed"]
    assert [text for text in (*asked, *NO_TASKS) if is_task_prompt(text)] == asked
    first, second = "rm_01JABCDEFGHJKMNPQRSTVWXYZ0", "rm_01JABCDEFGHJKMNPQRSTVWXYZ1"
    text = f"before {NOTES_OPEN}\n1) Use uv [{first}]\n2) Lint [{second}]\n3) Again [{first}]\n{NOTES_CLOSE} after"
    assert strip_notes(text) == ("before  after", (first, second))


@pytest.mark.parametrize("text", [f"a {NOTES_OPEN} end", f"a {NOTES_CLOSE} end", "a <system-reminder> end"])
def test_a_frame_that_is_never_closed_or_opened_is_none(text: str) -> None:
    assert strip_notes(text) == (text, ())
    assert task_text(text) == text


def test_a_frame_ends_where_it_is_first_closed_and_ids_of_other_shapes_are_not_ours() -> None:
    text = f"a {NOTES_OPEN} b {NOTES_OPEN} c {NOTES_CLOSE} d {NOTES_CLOSE} e {NOTES_OPEN} f"
    assert strip_notes(text) == (f"a  d {NOTES_CLOSE} e {NOTES_OPEN} f", ())
    assert find_memory_ids("rm_short xrm_01JABCDEFGHJKMNPQRSTVWXYZ0 rm -rf") == ()


def test_the_task_is_what_the_person_wrote_without_the_blocks_of_the_host() -> None:
    prompt = "<ide_opened_file>The user opened a.py</ide_opened_file>\nfix a.py <system-reminder>x</system-reminder>"
    assert task_text(prompt) == "fix a.py"


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("mcp__swarm-memory__retrieve_memories", True),
        ("mcp__swarm_memory__memory_status", True),
        ("mcp__plugin_swarm-memory_swarm-memory__distill_memories", True),
        ("mcp__github__search", False),
        ("Bash", False),
    ],
)
def test_the_tools_of_this_server_are_known_by_their_names(name: str, own: bool) -> None:
    assert is_own_tool(name) is own


def test_a_prompt_of_a_megabyte_is_classified_by_its_beginning() -> None:
    def read(text: str) -> None:
        continues(text, TASK)
        feedback(text)

    for unit in ("no ", "still ", "<system-reminder>", " ", "thanks "):
        small, large = (unit * (size // len(unit)) for size in (100_000, 1_000_000))
        assert grows_by(read, small, large, at_most=12) <= 12
