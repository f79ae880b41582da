"""Brings a database to version 2."""

import re
import sqlite3
import sys
from contextlib import closing

AMOUNT = re.compile(r"\d{1,3}(,\d{3})+(\.\d{1,2})?|\d+(\.\d{1,2})?")


def cents(total: str) -> int:
    """Return an amount in cents. Raises `ValueError`."""
    if not AMOUNT.fullmatch(total):
        raise ValueError(f"{total!r} is no amount")
    whole, _, part = total.replace(",", "").partition(".")
    return int(whole) * 100 + int(part.ljust(2, "0"))


def main(path: str) -> None:
    """Do all of it in one transaction."""
    with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
        connection.create_function("cents", 1, cents, deterministic=True)
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute("PRAGMA user_version").fetchone()[0] == 2:
            connection.execute("ROLLBACK")
            return
        for statement in (
            """CREATE TABLE orders_new (id INTEGER PRIMARY KEY,
               customer_id INTEGER NOT NULL REFERENCES customers (id),
               total_cents INTEGER NOT NULL CHECK (total_cents >= 0), note TEXT)""",
            """CREATE TABLE orders_orphaned (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL,
               total_cents INTEGER NOT NULL, note TEXT)""",
            """INSERT INTO orders_new SELECT id, customer_id, cents(total), note FROM orders
               WHERE customer_id IN (SELECT id FROM customers)""",
            """INSERT INTO orders_orphaned SELECT id, customer_id, cents(total), note FROM orders
               WHERE customer_id NOT IN (SELECT id FROM customers)""",
            "DROP TABLE orders",
            "ALTER TABLE orders_new RENAME TO orders",
            "CREATE INDEX orders_by_customer ON orders (customer_id)",
            "PRAGMA user_version = 2",
            "COMMIT",
        ):
            connection.execute(statement)


if __name__ == "__main__":
    main(sys.argv[1])
