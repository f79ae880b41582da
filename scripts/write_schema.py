"""Regenerate schema/sqlite/schema.sql from the migrations, which alone define the schema.

python scripts/write_schema.py
"""

import sqlite3
from pathlib import Path

from swarm_memory.schema.sqlite.statements import migrations, shadow_tables

SCHEMA = Path(__file__).resolve().parent.parent / "schema" / "sqlite" / "schema.sql"


def main() -> None:
    """Replay the migrations in memory and write what they made."""
    connection = sqlite3.connect(":memory:")
    for migration in migrations():
        for statement in migration.statements:
            connection.execute(statement)
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid").fetchall()
    connection.close()
    shadows = shadow_tables(dict(rows))
    SCHEMA.write_text("\n\n".join(f"{sql};" for name, sql in rows if name not in shadows) + "\n", "utf-8")


if __name__ == "__main__":
    main()
