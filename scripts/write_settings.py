"""Write server/hooks/defaults.json anew from schema/settings.py: what a prompt reads where nobody set anything.

python scripts/write_settings.py
"""

import json

from swarm_memory.schema.settings import Settings
from swarm_memory.server.hooks.settings import DEFAULTS


def as_json() -> str:
    """Return the defaults, a line for each section."""
    every = Settings().model_dump(mode="json")
    return "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in every.items()) + "\n}\n"


def main() -> None:
    """Write the file."""
    DEFAULTS.write_text(as_json(), "utf-8")


if __name__ == "__main__":
    main()
