"""Checks `migrate.py` in a given folder, on databases of its own, with a concurrent reader."""

import hashlib
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path
from random import Random

LIMIT_S = 60
CUSTOMERS, ORDERS = 400, 40_000
V1 = (Path(__file__).resolve().parent / "work" / "schema_v1.sql").read_text(encoding="utf-8")

Row = tuple[int, int, int, str | None]
"""Id, customer, cents, note."""


def make(path: Path, seed: int, broken: str | None = None) -> list[Row]:
    """Make a database of version 1, and return its orders with their amounts in cents."""
    chance = Random(seed)
    rows: list[Row] = []
    for number in range(1, ORDERS + 1):
        customer = chance.randint(1, CUSTOMERS) if chance.random() < 0.98 else CUSTOMERS + number
        rows.append((number * 3, customer, chance.randint(0, 500_000), chance.choice((None, "", "gift; 'wrap'"))))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(V1)
        people = [(at, f"Customer {at}", f"c{at}@example.com") for at in range(1, CUSTOMERS + 1)]
        connection.executemany("INSERT INTO customers VALUES (?, ?, ?)", people)
        written = [(order, customer, text(cents, chance), note) for order, customer, cents, note in rows]
        connection.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", written)
        if broken is not None:
            connection.execute("UPDATE orders SET total = ? WHERE id = ?", (broken, ORDERS * 3))
    return rows


def text(cents: int, chance: Random) -> str:
    """Return an amount in one of the formats that programs wrote."""
    whole = chance.choice((f"{cents / 100:.2f}", f"{cents / 100:,.2f}"))
    return whole.removesuffix("0") if whole.endswith("0") and chance.random() < 0.5 else whole


def migrate(folder: Path, database: Path) -> int:
    """Run the written `migrate.py` and return its exit code."""
    command = [sys.executable, str(folder / "migrate.py"), str(database)]
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, timeout=LIMIT_S, check=False).returncode
    except subprocess.TimeoutExpired:
        sys.exit(f"migrate.py did not end within {LIMIT_S} s")


class Reader(threading.Thread):
    """Reads continuously, and records every state that is neither version 1 nor version 2."""

    def __init__(self, database: Path, orders: int, kept: int) -> None:
        super().__init__(daemon=True)
        self._database, self._orders, self._kept = database, orders, kept
        self.ended = threading.Event()
        self.faults: list[str] = []

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                with closing(sqlite3.connect(self._database, timeout=5, isolation_level=None)) as connection:
                    connection.execute("BEGIN")
                    version = connection.execute("PRAGMA user_version").fetchone()[0]
                    count = connection.execute("SELECT count(*) FROM orders").fetchone()[0]
            except sqlite3.Error as error:
                self.faults.append(f"a reader got: {error}")
                continue
            if (version, count) not in ((1, self._orders), (2, self._kept)):
                self.faults.append(f"a reader found version {version} with {count} orders")


def main() -> None:
    """End with code 0 if everything works."""
    folder = Path(sys.argv[1])
    if not (folder / "migrate.py").is_file():
        sys.exit("there is no migrate.py")
    with tempfile.TemporaryDirectory() as scratch:
        check_migration(folder, Path(scratch, "shop.db"))
        for at, broken in enumerate(("12.5o", "-1.00", "")):
            check_refused(folder, Path(scratch, f"broken{at}.db"), broken)


def check_migration(folder: Path, database: Path) -> None:
    """Migrate with a concurrent reader, then migrate again."""
    rows = make(database, 5)
    kept = [row for row in rows if row[1] <= CUSTOMERS]
    reader = Reader(database, len(rows), len(kept))
    reader.start()
    code = migrate(folder, database)
    reader.ended.set()
    reader.join()
    if code != 0:
        sys.exit(f"it ended with code {code}")
    if reader.faults:
        sys.exit(reader.faults[0])
    compare(database, rows, kept)
    if migrate(folder, database) != 0:
        sys.exit("a second run does not end with 0")
    compare(database, rows, kept)


def compare(database: Path, rows: list[Row], kept: list[Row]) -> None:
    """End with a message unless the database is of version 2 and nothing was lost."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        select = "SELECT id, customer_id, total_cents, note FROM {} ORDER BY id"
        try:
            found = connection.execute(select.format("orders")).fetchall()
            orphaned = connection.execute(select.format("orders_orphaned")).fetchall()
            people = connection.execute("SELECT count(*) FROM customers").fetchone()[0]
        except sqlite3.Error as error:
            sys.exit(f"version 2 cannot be read: {error}")
        if found != kept or orphaned != [row for row in rows if row[1] > CUSTOMERS] or people != CUSTOMERS:
            sys.exit(f"{len(found)} orders, {len(orphaned)} orphaned, {people} customers: not those that there were")
        if connection.execute("PRAGMA user_version").fetchone()[0] != 2:
            sys.exit("user_version is not 2")
        if connection.execute("PRAGMA foreign_key_check").fetchall():
            sys.exit("foreign keys are violated")
        keys = [tuple(row[2:5]) for row in connection.execute("PRAGMA foreign_key_list(orders)")]
        if keys != [("customers", "customer_id", "id")]:
            sys.exit(f"orders has these foreign keys: {keys}")
        plan = " ".join(
            row[3] for row in connection.execute("EXPLAIN QUERY PLAN SELECT 1 FROM orders WHERE customer_id = 1")
        )
        if "INDEX" not in plan:
            sys.exit("orders of a customer are not found by an index")
        try:
            connection.execute("INSERT INTO orders VALUES (1, 1, -5, NULL)")
        except sqlite3.IntegrityError:
            return
        sys.exit("an amount below 0 is not refused")


def check_refused(folder: Path, database: Path, broken: str) -> None:
    """Check that a database with an invalid total is refused and stays unchanged."""
    make(database, 6, broken)
    before = dumped(database)
    if migrate(folder, database) == 0:
        sys.exit(f"the total {broken!r} was taken for an amount")
    if dumped(database) != before:
        sys.exit(f"the database changed although the total {broken!r} is no amount")


def dumped(database: Path) -> str:
    """Return a hash of everything in a database, and its version."""
    whole = hashlib.sha256()
    with closing(sqlite3.connect(database)) as connection:
        for line in connection.iterdump():
            whole.update(line.encode())
        return f"{whole.hexdigest()} {connection.execute('PRAGMA user_version').fetchone()[0]}"


if __name__ == "__main__":
    main()
