"""A prompt that no server answers, where nobody set anything: the hook loads neither pydantic nor dataclasses."""

import json
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

import pytest
from hook_project import NOTE, TASK, HookProject
from patience import HANG_S
from pydantic.fields import FieldInfo

from swarm_memory.schema.base import Scope
from swarm_memory.schema.job import Job
from swarm_memory.schema.memory import MemoryItem, NearMiss, Provenance, Retrieval, ScoredMemory, ScoreParts
from swarm_memory.server.hooks import plain
from swarm_memory.server.hosts.entries import hook_command
from swarm_memory.server.missed import missed
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.engine.connection import close, connect
from swarm_memory.tools.ports.journal import HostSession

NOTHING_SET = {"SWARM_MEMORY_EMBEDDING__PROVIDER": ""}
PROMPTS = (
    TASK,
    "no, that is wrong: the tests still fail",
    "Write the release notes and ask before pushing to main",
    "Bring notes.md of last week up to date, the key is AKIAIOSFODNN7EXAMPLE and I am at +49 30 901820",
    "测试套件因 SettingsError 失败 请修复 config/test.toml 并让测试通过",
)
"""A task, a correction of it, one that names nothing, one that names what is gone, a time and what is private, and one
in another script."""


@pytest.fixture
def both(learned: HookProject, tmp_path: Path, home: Path) -> tuple[HookProject, HookProject]:
    """Two projects of one user with the same bank, a file of which is gone; in the second one nothing is set."""
    (learned.root / "notes.md").write_text("notes", "utf-8")
    learned.cli("remember", "Keep notes.md short")
    (learned.root / "notes.md").unlink()
    plain = HookProject(tmp_path / "plain" / learned.root.name, home, dict(NOTHING_SET))
    shutil.copytree(learned.root, plain.root)
    registry.forget(plain.database)
    registry.begin(plain.database)
    close(connect(plain.database), plain.database)
    return learned, plain


def prompted(project: HookProject, text: str = TASK) -> str:
    """Return what a prompt is told by a command that starts as an agent starts it: it imports for itself."""
    told = project.event(hook_event_name="UserPromptSubmit", prompt=text)
    done = project.start(*hook_command()[2:], "prompt", told=told)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] if done.stdout else ""


def kept(project: HookProject) -> list[object]:
    """Return what prompts left in a bank, without times, ids of retrievals and the last digits of scores."""
    events = project.rows(
        "SELECT type, data FROM events WHERE type LIKE '%retrieved' OR type LIKE 'task.%' ORDER BY seq"
    )
    told = [
        (kind, [json.loads(data).get(name) for name in ("ids", "told", "left_out", "via")]) for kind, data in events
    ]
    sessions = project.rows("SELECT session_id, task_id, task, task_number, transcript_path FROM host_sessions")
    return [*told, *sessions, *project.rows("SELECT kind, key, payload, status FROM jobs ORDER BY key")]


def test_a_prompt_is_told_and_leaves_the_same(both: tuple[HookProject, HookProject]) -> None:
    told = [[prompted(project, prompt) for prompt in PROMPTS] for project in both]
    assert told[0] == told[1]
    assert NOTE in told[1][0]
    assert kept(both[0]) == kept(both[1])
    assert [project.log() for project in both] == ["", ""]
    assert "Keep notes.md short" in str(told[1])
    assert "check_anchors" in str(kept(both[1])), "what is gone is looked at"


def test_the_first_prompt_of_a_project_makes_its_bank(shop: HookProject) -> None:
    shop.extra.update(NOTHING_SET)
    assert prompted(shop) == ""
    assert shop.rows("SELECT task_id FROM host_sessions") == [("s1:1",)]
    assert missed(shop.root) == []


def test_a_damaged_memory_is_noticed_alike(both: tuple[HookProject, HookProject]) -> None:
    for project in both:
        bank = connect(project.database)
        bank.execute("UPDATE patterns SET pattern_data = json_set(pattern_data, '$.title', 7)")
        close(bank, project.database)
        assert prompted(project) == ""
    logs = [re.sub(r"^\S+ \S+ ", "", project.log(), flags=re.MULTILINE) for project in both]
    assert "is not what was written" in logs[1]
    assert logs[0] == logs[1]


def test_it_loads_neither(both: tuple[HookProject, HookProject]) -> None:
    told = both[1].event(hook_event_name="UserPromptSubmit", prompt=TASK)
    done = both[1].start("-X", "importtime", *hook_command()[2:], "prompt", told=told)
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "additionalContext" in done.stdout
    assert "swarm_memory" in loaded
    assert loaded.isdisjoint(
        {"pydantic", "pydantic_core", "dataclasses", "inspect", "hashlib", "asyncio", "anyio", "numpy"}
    )


DEFAULTS = """
import json, sys
from swarm_memory.server.hooks import plain
from swarm_memory.server.hosts.entries import hook_command
from swarm_memory.server.missed import missed
plain.stand_in()
from swarm_memory.schema import base, job, memory
from swarm_memory.tools.ports import journal
def told(default):
    made = default.make() if type(default) is plain._Made else default
    return repr(made) if isinstance(made, (str, int, float, tuple, dict, type(None))) else type(made).__name__
known = vars(base) | vars(job) | vars(memory) | vars(journal)
fields = {name: known[name].model_fields.items() for name in sys.argv[1:]}
print(json.dumps({name: {field: told(default) for field, default in each} for name, each in fields.items()}))
"""
MODELS = (Scope, Job, MemoryItem, Provenance, Retrieval, NearMiss, ScoredMemory, ScoreParts, HostSession)
"""Those that a prompt's way makes."""


def told(info: FieldInfo) -> str:
    made: object = info.get_default(call_default_factory=True)
    is_shown = isinstance(made, str | int | float | tuple | dict | None)
    return "object" if info.is_required() else repr(cast("object", made)) if is_shown else type(made).__name__


def test_its_models_have_the_fields_and_defaults_of_pydantic() -> None:
    command = [sys.executable, "-c", DEFAULTS, *(kind.__name__ for kind in MODELS)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG_S)
    wanted = {kind.__name__: {name: told(info) for name, info in kind.model_fields.items()} for kind in MODELS}
    assert json.loads(found.stdout) == wanted


NEEDING = """
import sys
class Unusual:
    def find_spec(self, name, path=None, target=None):
        if name == "swarm_memory.server.storage.hook_store":
            sys.meta_path.remove(self)
            try:
                {line}
            except Exception:
                pass
sys.meta_path.insert(0, Unusual())
import swarm_memory.server.hooks.__main__
"""
"""A hook command that on its way does what hardly any does."""


@pytest.mark.parametrize(
    "line",
    [
        "from pydantic import model_validator",
        "import pydantic.fields",
        "from dataclasses import asdict",
        "import dataclasses; dataclasses.dataclass(order=True)(Unusual)",
        "from swarm_memory.schema.base import Scope; Scope.model_json_schema()",
        "from swarm_memory.schema.base import Scope; Scope().model_dump_json()",
    ],
)
def test_what_it_lacks_is_done_once_more_with_the_real_ones(learned: HookProject, line: str) -> None:
    wanted = prompted(learned)
    learned.extra.update(NOTHING_SET)
    told = learned.event(hook_event_name="UserPromptSubmit", prompt=TASK, session_id="s2")
    done = learned.start("-c", NEEDING.format(line=line), "prompt", told=told)
    assert done.stderr == ""
    assert json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"] == wanted
    assert missed(learned.root) == []


class Part(plain.BaseModel):
    name: str
    sizes: tuple[int, ...] = ()
    kind: Literal["a", "b"] | None = "a"


class Whole(plain.BaseModel):
    part: Part
    at: datetime | None = None
    notes: dict[str, object] = plain.Field(default_factory=dict)


def test_a_value_is_read_and_compared_copied_and_taken_apart() -> None:
    part = {"name": "x", "sizes": [1, 2], "new": 1}
    read = Whole.model_validate({"part": part, "at": "2026-01-01T00:00:00Z"})
    assert read == Whole(part=Part(name="x", sizes=(1, 2)), at=datetime(2026, 1, 1, tzinfo=UTC))
    assert len({read.part, Part(name="x", sizes=(1, 2)), Part(name="y")}) == 2
    assert read.part.model_copy(update={"kind": "b"}).model_dump(exclude={"name"}) == {"sizes": (1, 2), "kind": "b"}
    assert read.notes is not Whole(part=read.part).notes


@pytest.mark.parametrize(
    "values", [{}, {"name": None}, {"name": 1}, {"name": "x", "kind": "c"}, {"name": "x", "sizes": [""]}, []]
)
def test_a_value_that_cannot_be_is_refused(values: Any) -> None:
    with pytest.raises(plain.ValidationError):
        Part.model_validate(values)


def _read(text: str) -> dict[str, Any]:
    known, field = plain.core_schema, plain.core_schema.typed_dict_field
    part = known.typed_dict_schema({"size": field(plain.TypeAdapter(int).core_schema, required=False)})
    return plain.SchemaValidator({"name": field(str, required=True), "part": field(part, required=True)}).validate_json(
        text
    )


def test_a_mapping_is_read_from_json_without_what_is_not_known() -> None:
    assert _read('{"name": "x", "part": {"new": 1}, "kind": 2}') == {"name": "x", "part": {}}


@pytest.mark.parametrize("text", ['{"name": "x"}', '{"name": "x", "part": {"size": "1"}}', '{"name": "x", "part": 1}'])
def test_a_mapping_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(plain.ValidationError):
        _read(text)


@plain.dataclass(frozen=True)
class Held:
    first: int
    seen: list[str] = plain.field(default_factory=list)
    last: str = "z"


@plain.dataclass(frozen=True)
class Kept:
    first: int


def test_a_dataclass_takes_its_fields_by_place_and_by_name() -> None:
    held = Held(1, last="y")
    other = plain.replace(held, first=2)
    assert (held.first, held.seen, held.last, other.first, other.last) == (1, [], "y", 2, "y")
    assert held.seen is not Held(1).seen
    assert (held == plain.replace(other, first=1), held == other, len({Kept(1), Kept(1), Kept(2)})) == (True, False, 2)
    with pytest.raises(TypeError):
        Held()  # pyright: ignore[reportCallIssue]


def test_what_the_code_makes_has_all_fields_and_no_others() -> None:
    for values in ({}, {"name": "x", "other": 1}):
        with pytest.raises(TypeError):
            Part(**values)
