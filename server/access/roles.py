"""Who is calling, and the minimum role for each tool and prompt; routes declare theirs themselves."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from swarm_memory.schema.errors import NotAllowed
from swarm_memory.schema.team.person import Person, Role, rank

SCOPE_KEY = "swarm_memory.caller"
"""The key under which an HTTP request that was let in carries its caller."""

TOOLS: dict[str, Role | dict[str, Role]] = {}
"""The minimum role by tool, and by action where it has actions; entered from its declaration when a tool is made."""

ARGUMENTS: dict[str, Role] = {"transcript_path": "admin"}
"""The minimum role for those arguments, of any tool, that read files of the server's machine."""

PROMPTS: dict[str, Role] = {"remember": "review", "memories": "read", "review": "review"}


class Caller(NamedTuple):
    """Who sends a request that was let in; without a person it is the bank's own user, who may do everything."""

    person: Person | None = None

    @property
    def role(self) -> Role:
        """What they may do."""
        return "admin" if self.person is None else self.person.role

    def may(self, needed: Role) -> bool:
        """Whether their role is enough."""
        return rank(self.role) >= rank(needed)

    def require(self, needed: Role, what: str) -> None:
        """Raise `NotAllowed`, which names the role that is needed, where theirs is not enough."""
        if not self.may(needed):
            raise NotAllowed(f"{what} needs the role {needed}; yours is {self.role}: ask whoever runs this server")


OWNER = Caller()

_calling: ContextVar[Caller] = ContextVar("calling", default=OWNER)


def calling() -> Caller:
    """Return the caller that this task works for; outside of a request, the bank's own user."""
    return _calling.get()


@contextmanager
def serving(caller: Caller) -> Generator[None]:
    """Make a block, and the tasks that it starts, work for a caller."""
    before = _calling.set(caller)
    try:
        yield
    finally:
        _calling.reset(before)


def caller_of(request: Any) -> Caller:
    """Return the caller of a request over HTTP; without a request, as over stdio, the bank's own user.

    Raises `KeyError` for a request that was not let in.
    """
    return OWNER if request is None else request.scope[SCOPE_KEY]


def role_of_call(tool: str, arguments: Mapping[str, object]) -> Role:
    """Return the minimum role for a call of a tool; for an unknown action, the highest."""
    needed = TOOLS[tool]
    of_tool = needed.get(str(arguments.get("action")), "admin") if isinstance(needed, dict) else needed
    return max([of_tool, *(ARGUMENTS[name] for name in ARGUMENTS if arguments.get(name) is not None)], key=rank)


def restrict_tool(tool: dict[str, Any], caller: Caller) -> dict[str, Any] | None:
    """Return a tool as `tools/list` shows it to a caller: without actions and arguments that their role does not allow.

    None where they may not use it at all.
    """
    needed = TOOLS[tool["name"]]
    roles: Mapping[str, Role] = needed if isinstance(needed, dict) else {"": needed}
    allowed = [action for action, role in roles.items() if caller.may(role)]
    if not allowed:
        return None
    schema = tool["inputSchema"]
    fields = {name: each for name, each in schema["properties"].items() if caller.may(ARGUMENTS.get(name, "read"))}
    if isinstance(needed, dict):
        kept = [action for action in fields["action"]["enum"] if action in allowed]
        fields["action"] = {**fields["action"], "enum": kept}
    return {**tool, "inputSchema": {**schema, "properties": fields}}
