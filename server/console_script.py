"""The command `swarm-memory`: `swarm-memory hook VERB` serves a waiting agent, everything else is the command line.

`hooks pre-task` and `hooks post-task`, as ReasoningBank's document writes them, run as hooks unless they name a task.
A project's shared settings name this command, so PYTHONPATH may name the project's own modules when it starts. A hook
imports nothing of the command line.
"""

# ruff: noqa: PTH100, PTH118
import os
import site
import sys


def main() -> None:
    """Run what `sys.argv` names and end the process.

    Folders in PYTHONPATH are not imported from, unless we are installed there: a project's modules must not shadow any.
    """
    if given := os.environ.get("PYTHONPATH"):
        named = {os.path.abspath(path) for path in given.split(os.pathsep)}
        named -= {*site.getsitepackages(), os.path.abspath(os.path.join(__file__, "..", "..", ".."))}
        sys.path[:] = [path for path in sys.path if path not in named]
    is_as_in_document = sys.argv[1:2] == ["hooks"] and not {"--task-id", "--query", "--help"} & {*sys.argv}
    if sys.argv[1:2] == ["hook"] or is_as_in_document:
        from swarm_memory.server.hooks.main import main as run_hook

        run_hook(sys.argv[2:])
    from swarm_memory.server.cli.main import main as run_command

    run_command()
