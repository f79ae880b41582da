"""What a task names and what came of it: exit codes and the host's word count, what was printed does not."""

import pytest
from scripted_runs import Script

from swarm_memory.schema.settings import Settings
from swarm_memory.tools.judge.judge import judge_by_evidence
from swarm_memory.tools.judge.proofs import goals_reached
from swarm_memory.tools.trajectory.reading import read

SETTINGS = Settings()
TASK = "Bring the site up to date with `publisher push site`."


def reached(script: Script) -> list[str]:
    return [call.name for call in goals_reached(read(script.done()))]


def label(script: Script) -> str:
    return judge_by_evidence(script.done(), SETTINGS).label


def explored() -> Script:
    script = Script(TASK)
    for command in ("publisher push site", "publisher status x", "publisher push site", "publisher init"):
        script.shell(command, "publisher: error: E17", 3)
    return script


def test_what_the_task_names_going_through_outweighs_the_errors_of_exploring() -> None:
    assert label(explored()) == "Undecided"
    assert label(explored().shell("publisher push site", "pushed")) == "Success"


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("publisher push site || true", "pushed, all tests passed", 0),
        ("publisher push site | tail -3", "pushed, all tests passed", 0),
        ("publisher push site; echo done", "done", 0),
        ("publisher push site --dry-run", "all tests passed", 0),
        ("publisher push --help", "all tests passed", 0),
        ("echo 'publisher push site'", "all tests passed", 0),
        ("publisher push site", "all tests passed, 0 errors", 3),
        ("publisher push other", "pushed", 0),
    ],
)
def test_words_and_codes_of_something_else_are_no_success(command: str, output: str, code: int) -> None:
    assert label(explored().shell(command, output, code)) != "Success"


def test_of_several_things_named_all_must_go_through() -> None:
    script = Script("Run `feed load cats` and `feed load dogs`.").shell("feed load cats", "error: busy", 1)
    script.shell("feed load cats", "loaded")
    assert label(script) == "Undecided"
    script.shell("feed load dogs", "error: busy", 1)
    assert label(script) == "Undecided"
    assert label(script.shell("feed load dogs", "loaded")) == "Success"


def test_a_tool_that_took_what_it_was_given_proves_nothing() -> None:
    script = Script("File the report with `file_case`.", source="agent")
    script.call("file_case", {"text": "x"}, "Error: text is too short", error=True)
    assert label(script.call("file_case", {"text": "xx"}, '{"status": "saved"}', error=False)) == "Undecided"


def test_without_the_hosts_word_nothing_went_through() -> None:
    script = Script(TASK, source="steps").call("Bash", {"command": "publisher push site"}, "pushed, exit code fine")
    assert reached(script) == []


def test_a_file_or_a_symbol_in_backticks_is_no_goal() -> None:
    script = Script("Mend `auth.py`, the function `login`.").shell("cat auth.py", "def login(): ...")
    assert reached(script) == []


def test_what_went_through_is_not_undone_by_one_more_call_unless_something_was_written_between() -> None:
    script = Script(TASK).shell("publisher push site", "pushed")
    assert reached(script.shell("publisher push site", "error: 429 Too Many Requests", 1)) == ["publisher"]
    script.edit("/r/site.toml", "a", "b").shell("publisher push site", "error: bad site.toml", 1)
    assert reached(script) == []
