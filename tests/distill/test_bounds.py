"""What an agent or a model proposes: kept to the letter, but for what is of one machine or person, and only once."""

import pytest
from scripted_runs import Script

from swarm_memory.schema.memory import MemoryDraft, Note
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.distill.bounds import check_drafts, copies, portable, words_of
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.memories.remember import remember_notes
from swarm_memory.tools.toolbox import Toolbox

SETTINGS = Settings()
TOKEN = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"

NOTES = (
    MemoryDraft(
        title="`make fast` is gone; quick tests by SUITES",
        description="When running tests in parcelbook.",
        content="The README names `make fast`, but the Makefile has only `check`. Under a second: `SUITES=rates,books "
        "python3 tests/run.py` (suites: sync, rates, books). `make check` takes 70 s, as cases/sync.py:88 sleeps 100 "
        "times 0.7 s; run it once, with a time limit above 70 s.",
    ),
    MemoryDraft(
        title="How a label is put on a lane with parcelctl",
        description="When `parcelctl put` ends in E17 (no lease).",
        content="`parcelctl lease --lane LANE --for relay` first, then `parcelctl put --lane LANE --ref PB-214 "
        "labels/2.1.4.md`; success prints `put 2.1.4 LANE`. The recipe is ops/label.sh, deleted in 7be02d9: `git show "
        "7be02d9`; the whole id is 7be02d9c41aa90f3365be1d08b7f0c3a5e2d9916. Write times as 2026-02-03T09:00:00Z.",
    ),
    MemoryDraft(
        title="What the commit hooks demand (.githooks/policy.py)",
        description="Before any commit in parcelbook.",
        content="The first line must match `(core|docs): lower-case text [PB-123]`, 4 to 60 characters, else P5. "
        "`POST /api/v1/labels/{id}` answers 409 in pid 4242; docker run -p 8080:80 img@sha256:0f1e2d3c works.\n"
        "- `npm i left-pad@1.3.0 --save-exact`, then `rm -rf ./dist ../cache`",
    ),
)


@pytest.mark.parametrize("note", NOTES, ids=lambda note: note.title)
async def test_a_note_is_stored_to_the_letter_by_whichever_way_it_comes(toolbox: Toolbox, note: MemoryDraft) -> None:
    task = Script("label the parcels").shell("parcelctl put", "put 2.1.4 north").say("Done.").done()
    learned = await learn(toolbox, task, agent_verdict=Verdict.by_agent("Success"), agent_drafts=[note])
    (item,) = learned.stored
    assert (item.title, item.description, item.content) == (note.title, note.description, note.content)
    said = Note(title=note.title, when=note.description, note=note.content)
    (again,) = await remember_notes(toolbox, [said])
    assert (again.is_new, again.item.id) == (False, item.id), "it is the same by the other way"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Run `/home/kim/shop/tools/seed.py` in app/", "Run `tools/seed.py` in app/"),
        ("see /home/kim/shopping/x.md and /mnt/home/kim/shop/x.md", "see <path>/x.md and <path>/x.md"),
        ("settings lie in ~/.config/shop.toml", "settings lie in <path>/shop.toml"),
        ("`curl http://localhost:8080/orders?page=2`", "`curl http://localhost:8080/orders?page=2`"),
        ("see http://localhost.acme.io/x", "see <url>"),
        ("clone `https://bob:hunter2xyz@git.acme.io/x.git`", "clone `<url>`"),
        ("psql postgres://app:s3cretPw9@db.acme.io:5432/x", "psql <url>"),
        (f"the token is {TOKEN}", "the token is [secret:github-token]"),
        ("write to anna@example.com", "write to [email]"),
        ("ssh bob@build7.corp.internal", "ssh [email]"),
    ],
)
def test_what_is_of_one_machine_or_person_goes_and_paths_in_the_project_become_relative(text: str, kept: str) -> None:
    assert portable(text, SETTINGS, "/home/kim/shop") == kept
    assert portable(kept, SETTINGS, "/home/kim/shop") == kept


def test_twelve_words_in_a_row_out_of_a_result_are_a_copy_in_any_script_and_case() -> None:
    heard = [words_of("Note: one two three four five six seven eight nine ten eleven twelve!"), words_of("这" * 20)]
    assert copies("first ONE two, three four five six seven eight nine ten eleven twelve", heard)
    assert not copies("one two three four five six seven eight nine ten eleven, and then twelve", heard)
    assert copies("这" * 12, heard)


def checked(*drafts: MemoryDraft) -> tuple[tuple[MemoryDraft, ...], tuple[str, ...]]:
    trajectory: Trajectory = Script("x").shell("ls").done()
    return check_drafts(drafts, trajectory, SETTINGS)


def test_no_text_and_no_label_of_a_draft_holds_a_secret_or_an_address() -> None:
    draft = MemoryDraft(
        title="Read /home/anna/shop/README.md first",
        content=f"1. Use {TOKEN}.\n2. See https://wiki.corp.example/x?t=1 and ask anna@example.com.",
        tags=("sql", TOKEN, "see https://wiki.corp.example"),
        domain=f"ops.{TOKEN}",
        evidence=("s2",),
    )
    accepted, rejections = checked(draft)
    assert rejections == ()
    text = accepted[0].model_dump_json()
    assert "README.md" in text
    assert not any(part in text for part in (TOKEN, "/home/anna", "wiki.corp", "anna@"))
    assert (accepted[0].tags, accepted[0].domain) == (("sql",), None)


def test_a_draft_that_grows_too_long_by_placeholders_is_refused_with_what_is_allowed() -> None:
    accepted, rejections = checked(MemoryDraft(title="Paths", content="Read " + "~/a " * 998))
    assert accepted == ()
    assert "content: String should have at most 4000 characters" in rejections[0]


def test_a_draft_of_nothing_but_secrets_is_refused_with_the_reason() -> None:
    accepted, rejections = checked(MemoryDraft(title=TOKEN, content=TOKEN))
    assert accepted == ()
    assert "item 1: nothing is left of it" in rejections[0]


def test_a_draft_that_names_steps_which_are_not_there_is_refused() -> None:
    accepted, rejections = checked(MemoryDraft(title="A rule", content="1. Do it.", evidence=("s77",)))
    assert accepted == ()
    assert "s77" in rejections[0]


def test_drafts_beyond_the_limit_and_repeated_ones_are_refused_one_by_one() -> None:
    drafts = [MemoryDraft(title=f"Rule {word}", content="1. Do it.") for word in ("one", "one", "two", "three", "four")]
    accepted, rejections = checked(*drafts)
    assert [draft.title for draft in accepted] == ["Rule one", "Rule two", "Rule three"]
    assert rejections[0].startswith("item 2: says the same")
    assert rejections[1].startswith("from item 5 on: only 3")
