"""What is learned where the user changed the course of the work."""

from scripted_runs import Script

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.settings import Settings
from swarm_memory.tools.distill.distill import distill_by_extraction
from swarm_memory.tools.judge.judge import judge_by_evidence


def drafts(script: Script) -> tuple[MemoryDraft, ...]:
    trajectory = script.done()
    return distill_by_extraction(trajectory, judge_by_evidence(trajectory, Settings()), Settings()).drafts


def pointed(*, stopped: bool) -> Script:
    script = Script("write the exporter").call("WebSearch", {"query": "how to export"}, "many pages")
    if stopped:
        script.user("[Request interrupted by user for tool use]", interrupted=True)
    script.user("we already have one that can be copied: /home/anna/tools/importer/read_feed.py")
    return script.call("Read", {"file_path": "/home/anna/tools/importer/read_feed.py"}, "def read(): ...").say("Done.")


def test_a_file_that_the_user_stopped_the_work_for_is_read_first_next_time() -> None:
    (draft,) = drafts(pointed(stopped=True))
    assert draft.title == "In this project: read `importer/read_feed.py` first"
    assert "we already have one that can be copied" in draft.content
    assert "anna" not in f"{draft.title}{draft.description}{draft.content}"


def test_a_file_that_is_named_in_passing_is_nothing_to_learn() -> None:
    assert drafts(pointed(stopped=False)) == ()


def test_what_the_user_wants_each_time_is_kept_though_nothing_was_wrong() -> None:
    script = Script("add a page").edit("/r/page.ts", "a", "b").say("Done.")
    script.user("Now the menu. From now on run `make format` before you say that it is done.").edit(
        "/r/menu.ts", "", "c"
    )
    (draft,) = drafts(script.say("Done."))
    assert "From now on run `make format` before" in draft.content
    assert "user-correction" in draft.tags


def test_what_the_user_wants_of_this_one_piece_of_work_is_no_rule() -> None:
    script = Script("add a page").edit("/r/page.ts", "a", "b").say("Done.")
    script.user("that's wrong, the cards must show three patients").edit("/r/page.ts", "b", "c")
    assert drafts(script.user("it always crashes when there are none").edit("/r/page.ts", "c", "d").say("Done.")) == ()


def test_what_the_user_asks_to_be_told_instead_is_no_rule() -> None:
    script = Script("set up the proxy").call("Bash", {"command": "apt-get install nginx"}, "done")
    script.user("[Request interrupted by user for tool use]", interrupted=True)
    assert drafts(script.user("Just show me the config instead").say("server { listen 80; }")) == ()
    (draft,) = drafts(script.user("no, always show me the diff before you write").say("All right."))
    assert "always show me the diff before you write" in draft.content
