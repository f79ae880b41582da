"""Looks up in PyPI the known holes in what a user installs: the locked dependencies, those of the extras included.

python scripts/audit.py              names each hole and exits with 1, and says what could not be looked up
python scripts/audit.py --sbom FILE  writes the dependencies as a CycloneDX bill of materials; looks nothing up

Without an answer from the index it says so and exits with 0: that does not mean that there is no hole.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "swarm-memory"
PATIENCE_S, LIMIT_S = 5, 60
"""Time limits of one request, and of one run of pip-audit."""
UNREACHED = ("ConnectionError", "Timeout", "ProxyError", "SSLError", "ServiceError", "HTTPError")
"""Exceptions with which pip-audit ends when the index cannot be reached."""

Entry: TypeAlias = dict[str, Any]
"""A table of uv.lock or an object of pip-audit's report."""


class NoAnswer(Exception):
    """The index cannot be reached, or does not answer."""


class Audit(NamedTuple):
    """What the index knows: a line for each hole, and the packages for which it gave no answer."""

    asked: int
    holes: list[str]
    unanswered: list[str]


def runtime(lock: Path) -> dict[str, list[str]]:
    """Return the locked versions, for any platform, of every package that an installation with all extras may hold."""
    packages: dict[str, list[Entry]] = {}
    for package in tomllib.loads(lock.read_text("utf-8"))["package"]:
        packages.setdefault(package["name"], []).append(package)
    ours = packages[PACKAGE][0]
    found: dict[str, list[str]] = {}
    waiting = list(_needs(ours, set(ours.get("optional-dependencies", {}))))
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) not in seen:
            seen.add((name, extras))
            found[name] = [each["version"] for each in packages[name]]
            waiting += [need for each in packages[name] for need in _needs(each, extras)]
    return dict(sorted(found.items()))


def _needs(package: Entry, extras: set[str] | frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    optional = package.get("optional-dependencies", {})
    for need in [*package.get("dependencies", []), *(need for extra in extras for need in optional.get(extra, []))]:
        yield need["name"], frozenset(need.get("extra", ()))


def ask(locked: dict[str, list[str]]) -> list[Entry]:
    """Return pip-audit's report, package by package. Raises `NoAnswer`."""
    rows = zip_longest(*([f"{name}=={each}" for each in versions] for name, versions in locked.items()))
    return [entry for row in rows for entry in _ask([each for each in row if each])]


def _ask(pins: Sequence[str]) -> list[Entry]:
    """Return the report on packages of one version each: pip-audit accepts no more. Raises `NoAnswer`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"
        file.write_text("\n".join(pins), "utf-8")
        command = [sys.executable, "-m", "pip_audit", "--requirement", str(file), "--no-deps", "--disable-pip"]
        options = ["--vulnerability-service", "pypi", "--format", "json", "--progress-spinner", "off"]
        limits = ["--timeout", str(PATIENCE_S), "--cache-dir", folder]
        try:
            done = subprocess.run([*command, *options, *limits], capture_output=True, text=True, timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            raise NoAnswer(f"none within {LIMIT_S} s") from None
    if done.stdout:
        return json.loads(done.stdout)["dependencies"]
    last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    if any(name in last.partition(": ")[0] for name in UNREACHED):
        raise NoAnswer(last.partition(":")[0].rpartition(".")[2])
    raise SystemExit(f"pip-audit failed: {last}")


def judged(report: Sequence[Entry]) -> Audit:
    """Separate holes from packages without an answer: those that pip-audit skipped were not checked."""
    holes = [
        f"{entry['name']} {entry['version']}: {hole['id']}{_aliases(hole)}, mended in "
        f"{', '.join(hole['fix_versions']) or 'no version yet'}"
        for entry in report
        for hole in entry.get("vulns", ())
    ]
    return Audit(len(report), holes, [entry["name"] for entry in report if "skip_reason" in entry])


def _aliases(hole: Entry) -> str:
    return f" ({', '.join(hole['aliases'])})" if hole.get("aliases") else ""


def report(audit: Audit) -> str:
    """Return the audit in one line."""
    missing = len(audit.unanswered)
    if missing == audit.asked:
        return f"not checked: no answer from the index about any of {audit.asked} locked packages"
    line = f"known holes {len(audit.holes)} in {audit.asked - missing} of {audit.asked} locked packages"
    return f"{line}; not checked: no answer from the index about {', '.join(audit.unanswered)}" if missing else line


def bill_of_materials(locked: dict[str, list[str]]) -> str:
    """Return the packages as CycloneDX JSON."""
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output import make_outputter
    from cyclonedx.schema import OutputFormat, SchemaVersion
    from packageurl import PackageURL

    urls = [PackageURL("pypi", name=name, version=each) for name, versions in locked.items() for each in versions]
    parts = [
        Component(type=ComponentType.LIBRARY, name=url.name, version=url.version, purl=url, bom_ref=str(url))
        for url in urls
    ]
    bom = Bom(components=parts)
    bom.metadata.component = Component(type=ComponentType.APPLICATION, name=PACKAGE, bom_ref=PACKAGE)
    bom.register_dependency(bom.metadata.component, parts)
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)


def main(arguments: Sequence[str]) -> int:
    """Print what is known about the locked packages, or write their bill of materials."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sbom", type=Path, metavar="FILE")
    parser.add_argument("--lock", type=Path, default=ROOT / "uv.lock")
    given = parser.parse_args(arguments)
    locked = runtime(given.lock)
    if given.sbom:
        given.sbom.parent.mkdir(parents=True, exist_ok=True)
        given.sbom.write_text(bill_of_materials(locked), "utf-8")
        print(f"{given.sbom}: {sum(map(len, locked.values()))} packages")
        return 0
    try:
        audit = judged(ask(locked))
    except NoAnswer as error:
        print(f"not checked: no answer from the index ({error})")
        return 0
    for hole in audit.holes:
        print(hole)
    print(report(audit))
    return 1 if audit.holes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
