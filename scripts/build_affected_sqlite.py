"""Builds an SQLite that has the WAL-reset bug, for `tests/faults/test_engine.py`; `make faults` does it once.

python scripts/build_affected_sqlite.py

The source comes from npm, in a package that is pinned by version and hash, and is changed in one place: where a
checkpoint finds nothing to copy, and another process may restart the log, it waits a little. That widens the race of
https://sqlite.org/wal.html#walresetbug; the bug itself is SQLite's own. Needs npm and a C compiler. If the library
cannot be built, the script prints the reason and exits with 0; the test then reports that it did not run.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "better-sqlite3@12.4.1"
TARBALL_SHA512 = (
    "df255dc9986495388daed83ee16a87a49a450ddf961d3836a0ced4711f341aa2"
    "f4e40395d31109cdceaa36f158a04b44fa1469d67f4ca4debffb8ca19469035d"
)
SOURCE = "package/deps/sqlite3/sqlite3.c"
HERE, THERE = "  pInfo = walCkptInfo(pWal);\n", "  if( pInfo->nBackfill<pWal->hdr.mxFrame ){\n"
WAIT = "  if( pInfo->nBackfill>=pWal->hdr.mxFrame ) usleep(20000);\n"
FLAGS = ("-O1", "-w", "-fPIC", "-shared", "-DSQLITE_THREADSAFE=1", "-DSQLITE_ENABLE_FTS5", "-DHAVE_USLEEP=1")
LIBRARY = Path(__file__).resolve().parent.parent / "build" / "affected" / "libsqlite3.so.0"


class _Impossible(Exception):
    """Why the library cannot be made here."""


def fetch(folder: Path) -> str:
    """Return the source of SQLite. Raises `_Impossible` when the package is not available, or is another one."""
    npm = shutil.which("npm")
    if npm is None:
        raise _Impossible("npm is not installed")
    command = [npm, "pack", PACKAGE, "--ignore-scripts", "--silent", "--pack-destination", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise _Impossible(f"npm could not get {PACKAGE}: {done.stderr.strip()[-200:]}")
    (tarball,) = folder.glob("*.tgz")
    if hashlib.sha512(tarball.read_bytes()).hexdigest() != TARBALL_SHA512:
        raise _Impossible(f"{PACKAGE} is not what it was: its hash is another")
    with tarfile.open(tarball) as archive:
        file = archive.extractfile(SOURCE)
        assert file is not None
        return file.read().decode("utf-8")


def build(source: str, folder: Path) -> Path:
    """Compile the source with the wider race; return the library. Raises `_Impossible` when that fails."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise _Impossible("there is no C compiler")
    assert source.count(HERE + THERE) == 1, "the source of the pinned package has the race once"
    (folder / "sqlite3.c").write_text(source.replace(HERE + THERE, HERE + WAIT + THERE), "utf-8")
    made = folder / LIBRARY.name
    command = [compiler, *FLAGS, str(folder / "sqlite3.c"), "-o", str(made), f"-Wl,-soname,{LIBRARY.name}"]
    done = subprocess.run([*command, "-lm", "-ldl", "-lpthread"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise _Impossible(f"it could not be compiled: {done.stderr.strip()[-200:]}")
    return made


def main() -> None:
    """Build the library unless it exists."""
    if LIBRARY.is_file():
        return
    if sys.platform != "linux":
        print("no SQLite with the WAL-reset bug: it is put in the place of Python's own on Linux only")
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = build(fetch(Path(folder)), Path(folder))
        except (_Impossible, subprocess.TimeoutExpired) as reason:
            print(f"no SQLite with the WAL-reset bug, row A4 is left out: {reason}")
            return
        LIBRARY.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(made, LIBRARY)
    print(f"made {LIBRARY}")


if __name__ == "__main__":
    main()
