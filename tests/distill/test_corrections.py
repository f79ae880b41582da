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


def rejected() -> Script:
    script = Script("show the counts").edit("/r/api/counts/route.ts", "a", "b").say("Done.")
    return script.user("that's wrong, nothing is counted")


def test_a_rejected_change_that_a_run_had_to_come_before_is_a_guardrail() -> None:
    script = rejected().shell("npx tsx probe.ts", '{"patients": []}').edit("/r/api/counts/route.ts", "b", "c")
    draft = drafts(script.say("Now it counts."))[0]
    assert draft.title == "Look at the real data before changing `counts/route.ts`"
    assert "`npx tsx probe.ts`" in draft.content


def test_a_change_that_was_only_made_again_is_not() -> None:
    assert not any("real data" in draft.title for draft in drafts(rejected().edit("/r/api/counts/route.ts", "b", "c")))
