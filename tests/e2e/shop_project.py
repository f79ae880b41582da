"""The small project and the script of the session that `swarm-memory demo` shows."""

from pathlib import Path

from made_files import written

from tests.e2e.messages_api import Say, Turn, bash

TASK = "The tests of this project fail on my machine. Find out why and make them pass."

FILES = {
    "README.md": "# shop\n\nOrders of a small shop.\n\n## Tests\n\n"
    "The tests need a configuration and a migrated database:\n\n"
    "    cp config/test.example.toml config/test.toml\n    python -m shop.migrate\n    python -m pytest -q\n",
    "pytest.ini": "[pytest]\ntestpaths = tests\npythonpath = .\naddopts = -p no:cacheprovider\n",
    "config/test.example.toml": '[database]\npath = "shop_test.db"\n',
    "shop/__init__.py": "",
    "shop/settings.py": '''"""Settings, read from config/test.toml."""

import tomllib
from pathlib import Path

PATH = Path("config/test.toml")


class SettingsError(Exception):
    pass


def database_path() -> str:
    if not PATH.exists():
        raise SettingsError(f"{PATH} not found")
    settings = tomllib.loads(PATH.read_text())
    if "database" not in settings:
        raise SettingsError(f"{PATH} has no [database] section")
    return settings["database"]["path"]
''',
    "shop/migrate.py": '''"""Creates the tables."""

import sqlite3

from shop.settings import database_path


def main() -> None:
    path = database_path()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, total INTEGER NOT NULL)")
    print(f"migrated {path}: 1 table")


if __name__ == "__main__":
    main()
''',
    "shop/orders.py": '''"""Orders."""

import sqlite3

from shop.settings import database_path


def place(total: int) -> int:
    with sqlite3.connect(database_path()) as connection:
        return connection.execute("INSERT INTO orders (total) VALUES (?)", (total,)).lastrowid


def total(order: int) -> int:
    with sqlite3.connect(database_path()) as connection:
        return connection.execute("SELECT total FROM orders WHERE id = ?", (order,)).fetchone()[0]
''',
    "tests/test_orders.py": """from shop.orders import place, total


def test_an_order_gets_a_number():
    assert place(10) > 0


def test_an_order_keeps_its_total():
    assert total(place(25)) == 25
""",
}

SCRIPT: list[Turn] = [
    bash("python -m pytest -q --tb=line", "I'll run the tests to see how they fail."),
    bash(
        "mkdir -p config && touch config/test.toml && python -m pytest -q --tb=line",
        "The tests want config/test.toml. I'll create it.",
    ),
    bash(
        "printf '[database]\\npath = \"shop.db\"\\n' > config/test.toml && python -m pytest -q --tb=line",
        "It needs a [database] section. I'll write one by hand.",
    ),
    bash(
        "cat README.md; ls config",
        "Now the table is missing. Before I guess further I should read how the tests are meant to be set up.",
    ),
    bash(
        "cp config/test.example.toml config/test.toml && python -m shop.migrate",
        "The README has the set-up: copy the example configuration, then migrate.",
    ),
    bash("python -m pytest -q --tb=line", "Now the tests again."),
    Say(
        "The tests pass now (2 passed). They need config/test.toml, copied from config/test.example.toml, and a "
        "database migrated with `python -m shop.migrate`, as the README says. Writing the configuration by hand was "
        "not enough, because the tables were missing."
    ),
]


def write_project(folder: Path) -> None:
    """Write the small project into an empty folder."""
    for name, text in FILES.items():
        written(folder / name, text)
