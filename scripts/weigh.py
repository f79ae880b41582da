"""Says what an installation without extras weighs: each package of 5 MB or more, what requires it, when it is imported.

python scripts/weigh.py   prints the table for CONTRIBUTING.md
"""

import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import Distribution, distribution, packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
OURS = "swarm-memory"
HEAVY_MB, MOST_MB = 5.0, 250.0
ASKS = '{"jsonrpc": "2.0", "id": 1, "method": "server/discover"}\n{"jsonrpc": "2.0", "id": 2, "method": "tools/list"}\n'
STAGES = {
    "a hook": (("hook", "prompt"), '{"hook_event_name": "UserPromptSubmit", "prompt": "Make the tests pass again"}'),
    "the start of the server": (("serve",), ASKS),
    "the first search": (("demo",), ""),
}
"""What is run to see what is imported, in the order in which it happens in use."""


def closure(name: str) -> dict[str, str]:
    """Return the packages that one requires without extras, itself too, each with its chain of dependents: `b: a`."""
    come = {name: ""}
    ahead = [(name, frozenset({""}))]
    for package, extras in ahead:
        for wanted in map(Requirement, distribution(package).requires or []):
            if wanted.marker and not any(wanted.marker.evaluate({"extra": extra}) for extra in extras):
                continue
            known = canonicalize_name(wanted.name)
            if known not in come or wanted.extras:
                ahead.append((known, frozenset({"", *wanted.extras})))
            come.setdefault(
                known, "itself" if package == name else f"{package}: {come[package]}".removesuffix(": itself")
            )
    return come


def weight_mb(package: Distribution) -> float:
    """Return the size of a package's files in MB of 1,000,000 bytes, without bytecode."""
    files = [Path(str(package.locate_file(file))) for file in package.files or [] if file.suffix != ".pyc"]
    return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


def own_mb() -> float:
    """Return the MB of our own three folders; an editable installation holds none of their files."""
    files = [file for name in ("schema", "tools", "server") for file in (ROOT / name).rglob("*")]
    return sum(file.stat().st_size for file in files if file.is_file() and file.suffix != ".pyc") / 1e6


def imported(arguments: tuple[str, ...], given: str) -> set[str]:
    """Return the packages that a command of ours imports, in a temporary home and project."""
    owners = packages_distributions()
    with tempfile.TemporaryDirectory() as folder:
        home = {"HOME": folder, "XDG_STATE_HOME": folder, "PYTHONPROFILEIMPORTTIME": "1"}
        command = [sys.executable, "-m", "swarm_memory.server.cli", *arguments]
        if arguments[0] == "hook":
            command[2:4] = ["swarm_memory.server.hooks"]
        done = subprocess.run(command, cwd=folder, env=os.environ | home, input=given, capture_output=True, text=True)
    modules = re.findall(r"^import time:[^|]*\|[^|]*\|\s*([\w.]+)$", done.stderr, re.MULTILINE)
    tops = {module.partition(".")[0] for module in modules}
    return {canonicalize_name(owner) for top in tops for owner in owners.get(top, ())}


def weights() -> dict[str, float]:
    """Return the MB of each package that an installation without extras holds, the heaviest first."""
    found = {name: own_mb() if name == OURS else weight_mb(distribution(name)) for name in closure(OURS)}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def main() -> None:
    """Print the table."""
    found, come = weights(), closure(OURS)
    stages = {stage: imported(*how) | {OURS} for stage, how in STAGES.items()}
    print("| package | MB | comes by | first imported by |\n|---|---|---|---|")
    for name, weight in found.items():
        if weight >= HEAVY_MB:
            when = next((stage for stage, names in stages.items() if name in names), "what a setting asks for")
            print(f"| {name} | {weight:.0f} | {come[name]} | {when} |")
    print(f"| all {len(found)} | {sum(found.values()):.0f} | | |")


if __name__ == "__main__":
    main()
