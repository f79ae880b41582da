"""Reads a PDF's pages as text in a process of their own: a broken or hostile file costs that process, nothing else.

python -I -m swarm_memory.server.sources.pdf FILE   prints {"title": …, "pages": [text, …]}
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import cast

from swarm_memory.schema.errors import InputError

TIMEOUT_S = 120.0
MAX_PAGES = 5_000
MAX_TEXT_CHARS = 20_000_000

MISSING = "reading PDFs needs pypdf: pip install 'swarm-memory[pdf]'"


def is_available() -> bool:
    """Whether the extra `pdf` is installed."""
    return importlib.util.find_spec("pypdf") is not None


def read_pdf(path: Path) -> tuple[str, list[str]]:
    """Return a PDF's own title (empty without one) and the text of each page.

    Raises `InputError` for a PDF that is encrypted, broken, or takes too long.
    """
    command = [sys.executable, "-I", "-m", "swarm_memory.server.sources.pdf", str(path.resolve())]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False)  # noqa: S603 - our own module
    except subprocess.TimeoutExpired:
        raise InputError(f"took longer than {TIMEOUT_S:.0f} s to read") from None
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise InputError(f"is not a readable PDF ({said[-1][:200] if said else f'exit code {done.returncode}'})")
    answer = cast("dict[str, object]", json.loads(done.stdout))
    if "fault" in answer:
        raise InputError(str(answer["fault"]))
    return str(answer["title"]), cast("list[str]", answer["pages"])


def _read(path: Path) -> dict[str, object]:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, FileNotDecryptedError

    try:
        reader = PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            return {"fault": "is encrypted: remove its password first"}
        pages: list[str] = []
        left = MAX_TEXT_CHARS
        for page in reader.pages[:MAX_PAGES]:
            pages.append(page.extract_text()[:left])
            left -= len(pages[-1])
        metadata = reader.metadata
    except (DependencyError, FileNotDecryptedError):
        return {"fault": "is encrypted: remove its password first"}
    return {"title": (metadata.title if metadata is not None else None) or "", "pages": pages}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_read(Path(sys.argv[1]))))
