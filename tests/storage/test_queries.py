"""The query files: each query says what it does, SQLite understands it, and every query that code uses exists."""

import re
from collections.abc import Iterator
from pathlib import Path

from swarm_memory.schema.postgres import statements as postgres
from swarm_memory.schema.sqlite import statements
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine.connection import migrate

FOLDER = Path(statements.__file__).parent
SUBJECTS = sorted(path.stem.removeprefix("queries_") for path in FOLDER.glob("queries_*.sql"))
ASSIGNED = re.compile(
    r'^(_[A-Z_, ]+) = ((?:queries|Queries)\("\w+"\)(?:, (?:queries|Queries)\("\w+"\))*)$', re.MULTILINE
)
ASKED = re.compile(r'\b(_[A-Z]+)(?:\["|\.\w+\(\s*(?:self\._)?connection,\s*(?:\w+,\s*)?")(\w+)"')
CODE = FOLDER.parents[1] / "server"


def _nothing(*_: object) -> str:
    return ""


def every_query() -> Iterator[tuple[str, str, str]]:
    for subject in SUBJECTS:
        for name, text in queries(subject).items():
            yield subject, name, text


def test_every_query_of_a_file_is_read_and_no_name_stands_twice_in_one() -> None:
    for subject in SUBJECTS:
        text = (FOLDER / f"queries_{subject}.sql").read_text("utf-8")
        assert text.count("-- name: ") == len(queries(subject)), subject


def test_every_query_has_one_line_that_says_what_it_does() -> None:
    for _, name, text in every_query():
        first, _, rest = text.partition("\n")
        assert first.startswith("-- "), name
        assert first.endswith("."), name
        assert not rest.lstrip().startswith("--"), name


def test_sqlite_understands_every_query_that_needs_no_table_of_vectors() -> None:
    driver = choose()
    connection = driver.module.connect(":memory:", isolation_level=None)
    migrate(connection)
    for function, arguments in (("scoped", 3), ("says", 2), ("vec_distance_cosine", 2)):
        connection.create_function(function, arguments, _nothing)
    known = 0
    for _, name, text in every_query():
        if "{" in text or "vec0" in text:
            continue
        named = set(re.findall(r":([a-z_]+)", text.partition("\n")[2]))
        values = dict.fromkeys(named) if named else [None] * text.partition("\n")[2].count("?")
        try:
            connection.execute(f"EXPLAIN {text}", values).fetchall()
        except driver.module.Error as error:
            raise AssertionError(f"{name}: {error}") from error
        known += 1
    connection.close()
    assert known > 250


def test_every_query_that_code_names_is_in_the_file_it_names() -> None:
    named = 0
    for path in CODE.rglob("*.py"):
        code = path.read_text("utf-8")
        subject_of: dict[str, str] = {}
        for names, files in ASSIGNED.findall(code):
            subject_of |= zip(names.split(", "), re.findall(r'\("(\w+)"\)', files), strict=True)
        asked = [(subject_of[names], name) for names, name in ASKED.findall(code) if names in subject_of]
        asked += re.findall(r'queries\("(\w+)"\)\["(\w+)"\]', code)
        of = postgres.queries if path.parent.name == "postgres" else queries
        assert [each for each in asked if each[1] not in of(each[0])] == [], path
        named += len(asked)
    assert named > 250
