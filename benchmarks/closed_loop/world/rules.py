"""Worlds with one hidden rule each, which know whether their task was truly met, but no agent and no memory."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random

from world.terms import Action, Seen, shell


class World(ABC):
    """One task with its hidden state."""

    task: str
    cures: frozenset[str]
    """Actions that truly help, besides those that the task names."""

    @abstractmethod
    def actions(self) -> Sequence[Action]:
        """Return what might plausibly be tried now."""

    @abstractmethod
    def act(self, action: Action) -> Seen:
        """Perform the action and change the state."""

    @property
    @abstractmethod
    def met(self) -> bool:
        """Whether the task is truly met, whatever anyone believes."""


def _ok(text: str) -> Seen:
    return Seen(text, exit_code=0)


def _failed(text: str, code: int = 1) -> Seen:
    return Seen(text, failed=True, exit_code=code)


class _Commands(World):
    """A goal command fails until the right one of many commands has been run; the others do something else."""

    others: tuple[tuple[str, Seen], ...] = ()
    fix: str
    goal: str
    refused: Seen
    fixed: Seen
    passed: Seen

    def __init__(self) -> None:
        self.ready = False
        self.reached = False

    def actions(self) -> Sequence[Action]:
        rest = [command for command, _ in self.others]
        half = len(rest) // 2
        return [shell(command) for command in (*rest[:half], self.goal, self.fix, *rest[half:])]

    def act(self, action: Action) -> Seen:
        command = action.text
        if command == self.goal:
            self.reached = self.reached or self.ready
            return self.passed if self.ready else self.refused
        if command == self.fix:
            self.ready = True
            return self.fixed
        return dict(self.others)[command]

    @property
    def met(self) -> bool:
        return self.reached


class Migration(_Commands):
    """The tests need tables that only a migration makes."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        app = rng.choice(("orders", "billing", "stock", "returns", "pricing", "loyalty"))
        self.goal = f"pytest tests/{app} -q"
        self.fix = "python manage.py migrate"
        self.cures = frozenset({self.fix})
        count = rng.randint(6, 40)
        self.task = rng.choice((
            f"Check the {app} app before the release: make the tests `{self.goal}` pass.",
            f"A change went into {app}. Get its tests to pass with `{self.goal}`.",
            f"Please make sure that the tests of the {app} app are green: `{self.goal}`.",
        ))  # fmt: skip
        self.others = (
            ("pip install -e .", _ok("Successfully installed shop-1.4.0")),
            ("python manage.py check", _ok("System check identified no issues (0 silenced).")),
            ("python manage.py flush --no-input", _failed("CommandError: Database has no tables to flush.")),
            ("make clean", _ok("rm -rf build .pytest_cache")),
            ("git pull", _ok("Already up to date.")),
            ("python manage.py collectstatic --no-input", _ok("112 static files copied.")),
            ("python manage.py loaddata seed", _failed("CommandError: No fixture named 'seed' found.")),
            ("cat README.md", _ok("# Shop\n\nA small shop. See the wiki for the rest.")),
        )
        missing = f"sqlite3.OperationalError: no such table: {app}_item"
        self.refused = _failed(
            f"E   {missing}\nFAILED tests/{app}/test_models.py::test_create - {missing}\n{count} failed in 1.32s"
        )
        self.passed = _ok(f"{'.' * count}  [100%]\n{count} passed in 2.04s")
        self.fixed = _ok(f"Operations to perform:\n  Apply all migrations\nApplying {app}.0001_initial... OK")


class LockFile(_Commands):
    """A lock file that a crashed process left keeps the command from starting."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        feed = rng.choice(("suppliers", "customers", "invoices", "shipments", "catalogue", "ratings"))
        self.goal = f"feedsync run {feed}"
        self.fix = "rm -f .feedsync.lock"
        self.cures = frozenset({self.fix})
        rows = rng.randint(200, 9000)
        self.task = rng.choice((
            f"Synchronise the {feed} feed: run `{self.goal}`.",
            f"The {feed} feed is a day old. Bring it up to date with `{self.goal}`.",
            f"Run the feed synchronisation for {feed}, that is `{self.goal}`, until it is through.",
        ))  # fmt: skip
        self.others = (
            ("feedsync status", _ok("last run: incomplete")),
            ("feedsync list", _ok("suppliers\ncustomers\ninvoices")),
            ("ls", _ok("feeds.toml  out  README.md")),
            ("feedsync cache clear", _ok("cache cleared")),
            ("feedsync validate", _ok("feeds.toml: ok")),
            ("rm -rf out", _ok("")),
            ("pip install --upgrade feedsync", _ok("Requirement already satisfied: feedsync")),
            ("feedsync init", _failed("feedsync: error: feeds.toml is there already", 2)),
        )
        self.refused = _failed("feedsync: error: another run holds the lock, the feed is locked by it", 75)
        self.passed = _ok(f"{feed}: {rows} rows synchronised")
        self.fixed = _ok("")


class _Allowance(World):
    """A limited number of goals succeed; then one of many commands must renew the allowance."""

    left: int
    renewed: int
    fix: str
    fixed: Seen
    refused: Seen
    others: tuple[tuple[str, Seen], ...]

    def __init__(self, goals: Sequence[str]) -> None:
        self.goals = tuple(goals)
        self.cures = frozenset({self.fix})
        self.reached: list[str] = []

    def act(self, action: Action) -> Seen:
        if action.text == self.fix:
            self.left = self.renewed
            return self.fixed
        if action.text not in self.goals:
            return dict(self.others)[action.text]
        if not self.left:
            return self.refused
        self.left -= 1
        if action.text not in self.reached:
            self.reached.append(action.text)
        return self.passed(action.text.rsplit(" ", 1)[-1])

    @abstractmethod
    def passed(self, what: str) -> Seen:
        """Return the result of a goal that succeeds."""

    @property
    def met(self) -> bool:
        return set(self.reached) == set(self.goals)


class Token(_Allowance):
    """An API that needs a token first; the token is good for two calls."""

    left, renewed = 0, 2
    fix, fixed = "ledger token issue --scope export", _ok("token issued")
    refused = _failed("ledger: error: 401 Unauthorized: token is missing or has expired", 4)
    others = (
        ("ledger whoami", _ok("user: service-account")),
        ("ledger ping", _ok("pong")),
        ("ledger config show", _ok("endpoint = internal\nformat = csv")),
        ("ledger login --interactive", _failed("ledger: error: no terminal to ask on", 2)),
        ("ledger cache clear", _ok("0 entries removed")),
        ("ledger version", _ok("ledger 3.2.1")),
        ("ledger export --all --force", _failed("ledger: error: --force is for administrators", 2)),
    )

    def __init__(self, rng: Random) -> None:
        year = rng.randint(2021, 2025)
        first = rng.randint(1, 9)
        super().__init__([f"ledger export {year}-{month:02}" for month in range(first, first + 3)])
        self.task = rng.choice((
            f"Export three months of the ledger: {', '.join(f'`{goal}`' for goal in self.goals)}.",
            f"The auditors want the ledger of {year}. Run {' and '.join(f'`{goal}`' for goal in self.goals)}.",
        ))  # fmt: skip

    def actions(self) -> Sequence[Action]:
        others = [shell(command) for command, _ in self.others]
        return [*others[:4], *(shell(goal) for goal in self.goals), shell(self.fix), *others[4:]]

    def passed(self, what: str) -> Seen:
        return _ok(f"wrote {what}.csv")


class RateLimit(_Allowance):
    """Two calls are let through, then a long pause is needed; an earlier call is refused."""

    left = renewed = 2
    fix, fixed = "sleep 30", _ok("")
    refused = _failed("quotes: error: 429 Too Many Requests", 1)
    others = (
        ("quotes --help", _ok("usage: quotes get SYMBOL")),
        ("sleep 1", _ok("")),
        ("sleep 5", _ok("")),
        ("quotes cache clear", _ok("cache cleared")),
        ("quotes status", _ok("service: up")),
        ("quotes reset", _failed("quotes: error: unknown command reset", 2)),
        ("quotes config show", _ok("region = eu")),
    )

    def __init__(self, rng: Random) -> None:
        symbols = rng.sample(("ACME", "GLOB", "INIT", "UMBR", "HOOL", "STRK", "WAYN", "SOYL"), 4)
        super().__init__([f"quotes get {symbol}" for symbol in symbols])
        self.task = rng.choice((
            f"Fetch the closing quotes of four companies: {', '.join(f'`{goal}`' for goal in self.goals)}.",
            f"Four closing quotes are missing from the report; get them with "
            f"{', '.join(f'`{goal}`' for goal in self.goals)}.",
        ))  # fmt: skip

    def actions(self) -> Sequence[Action]:
        others = [shell(command) for command, _ in self.others]
        return [*others[:3], shell(self.fix), *(shell(goal) for goal in self.goals), *others[3:]]

    def passed(self, what: str) -> Seen:
        return _ok(f"{what} {41.7 + len(self.reached)}")


class Schema(World):
    """A form whose required field is named in the error, and takes only one of the values that look right."""

    _VALUES = ("high", "2", "S2", "urgent")
    _FIELDS = ("priority", "category", "severity_code")
    _RIGHT = ("severity_code", "S2")

    def __init__(self, rng: Random) -> None:
        self.title = rng.choice(("Printer offline", "VPN drops", "Mail delayed", "Badge refused", "Screen broken"))
        self.desk = rng.choice(("Lyon", "Oslo", "Porto", "Graz"))
        right = Action("create_ticket", {"title": self.title, "desk": self.desk, self._RIGHT[0]: self._RIGHT[1]})
        self.cures = frozenset({right.text})
        self.task = rng.choice((
            f"Open a support ticket for the desk in {self.desk}, '{self.title}', with `create_ticket`.",
            f"The office in {self.desk} reports: {self.title}. File it with `create_ticket` as a support ticket.",
        ))  # fmt: skip
        self.filed = False

    def actions(self) -> Sequence[Action]:
        plain = Action("create_ticket", {"title": self.title, "desk": self.desk})
        filled = [
            Action("create_ticket", {**plain.input, field: value}) for field in self._FIELDS for value in self._VALUES
        ]
        return [plain, *filled, Action("list_desks"), Action("search_tickets", {"query": self.title})]

    def act(self, action: Action) -> Seen:
        if action.tool == "list_desks":
            return Seen(json.dumps({"desks": ["Lyon", "Oslo", "Porto", "Graz"]}))
        if action.tool == "search_tickets":
            return Seen(json.dumps({"tickets": []}))
        field, right = self._RIGHT
        if field not in action.input:
            return Seen(f"Error: validation error: required field '{field}' is missing", failed=True)
        if action.input[field] != right:
            return Seen(f"Error: validation error: '{field}' is not one of the allowed codes", failed=True)
        self.filed = True
        return Seen(json.dumps({"status": "created", "title": self.title}))

    @property
    def met(self) -> bool:
        return self.filed


class Pages(World):
    """Past its end, a list returns its last page again, so counting every row counts too many; nothing says so."""

    def __init__(self, rng: Random) -> None:
        self.resource = rng.choice(("members", "parcels", "rentals", "bookings", "permits"))
        self.size, self.last = 3, rng.randint(2, 4)
        self.cures = frozenset({Action("submit_total", {"resource": self.resource, "rows": "distinct"}).text})
        self.start = rng.randint(100, 900)
        self.task = rng.choice((
            f"How many {self.resource} are there? Page through them with list_rows and report with `submit_total`.",
            f"Count all {self.resource} page by page with list_rows, then give the number with `submit_total`.",
        ))  # fmt: skip
        self.read: list[int] = []
        self.page = 0
        self.reported: int | None = None

    def actions(self) -> Sequence[Action]:
        following = Action("list_rows", {"resource": self.resource, "page": self.page + 1})
        totals = [Action("submit_total", {"resource": self.resource, "rows": rows}) for rows in ("all", "distinct")]
        return [following, *totals, Action("list_resources")]

    def act(self, action: Action) -> Seen:
        if action.tool == "list_resources":
            return Seen(json.dumps({"resources": [self.resource, "users"]}))
        if action.tool == "list_rows":
            self.page += 1
            first = self.start + (min(self.page, self.last) - 1) * self.size
            rows = list(range(first, first + self.size))
            self.read += rows
            return Seen(json.dumps({"page": self.page, "rows": rows}))
        if not self.read:
            return Seen("Error: no rows were read", failed=True)
        self.reported = len(self.read) if action.input["rows"] == "all" else len(set(self.read))
        return Seen(json.dumps({"status": "saved", "total": self.reported}))

    @property
    def met(self) -> bool:
        return self.reported == self.size * self.last


IN_MEMORY: dict[str, type[Migration | LockFile | Token | RateLimit | Schema | Pages]] = {
    "migration": Migration,
    "lock": LockFile,
    "token": Token,
    "rate-limit": RateLimit,
    "schema": Schema,
    "pages": Pages,
}
"""One hidden rule each; the tasks of a family differ only in surface values and wording."""
