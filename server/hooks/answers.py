"""The edge where the host's hooks come in: whatever happens behind it, the host gets an answer it can go on with."""

import logging
import os

from pydantic import JsonValue, ValidationError

from swarm_memory.schema.errors import SwarmMemoryError
from swarm_memory.server.bank import Bank
from swarm_memory.server.state_files import CHILD_VARIABLE

log = logging.getLogger(__name__)


async def answer_hook(bank: Bank, event: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return hook JSON for one event; `{}`, which means "go on", when the event is none or anything went wrong."""
    if os.environ.get(CHILD_VARIABLE):
        return {}  # an agent that we started ourselves must not be learned from

    from swarm_memory.schema.hook import HookEvent
    from swarm_memory.server.hooks.events import handle_hook

    try:
        return await handle_hook(await bank.toolbox(), HookEvent.model_validate(event))
    except ValidationError as error:
        log.warning("not a hook event: %s", error.errors(include_url=False, include_input=False)[0]["msg"])
    except SwarmMemoryError as error:
        log.warning("the hook did nothing: %s", error)
    except Exception:  # a main: a fault in a hook must never reach the editor
        log.exception("the hook did nothing")
    return {}
