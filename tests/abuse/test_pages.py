"""No text of a bank or a run becomes markup, a script or a request on a page: by a parser, and in a real browser."""

import hashlib
import json
import shutil
import subprocess
from base64 import b64encode
from pathlib import Path

import pytest
from forked import CLI, run
from patience import FULL, HANG_S
from served import place, settings

from swarm_memory.schema.settings import Settings
from swarm_memory.server.location import Location
from tests.viewer.browsed import browsing
from tests.viewer.hostile_bank import hostile_run, lay_everywhere
from tests.viewer.payloads import ELEMENTS, RUN, Page, payloads

PAYLOADS = list(payloads())
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.attack


def swarm(folder: Path, *words: str) -> str:
    """Run the command line in a folder."""
    done = run([*CLI, *words], cwd=folder, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def pages(folder: Path) -> list[Path]:
    """Return pages that the command line wrote: of runs with payloads everywhere, of a run on data that holds them."""
    files: list[str] = []
    for number, text in enumerate(PAYLOADS):
        file = folder / f"run{number}.json"
        file.write_text(hostile_run(text).model_dump_json(), encoding="utf-8")
        files.append(file.name)
    swarm(folder, "benchmark", "report", *files, "--html", "report.html")
    written = [folder / "report.html"]
    if FULL:
        items = [{"id": text, "content": f"{text} number {at}", "part": text} for at, text in enumerate(PAYLOADS)]
        questions = [{"query": text, "gold": [text], "category": text} for text in PAYLOADS]
        data = {"name": PAYLOADS[0], "items": items, "questions": questions}
        (folder / "data.json").write_text(json.dumps(data), encoding="utf-8")
        options = ("-o", "dataset=file", "-o", "path=data.json")
        swarm(folder, "benchmark", "run", "retrieval", *options, "--out", "measured.json")
        swarm(folder, "benchmark", "report", "measured.json", "--html", "measured.html")
        written.append(folder / "measured.html")
    return written


WRITTEN = (ELEMENTS | {"style", "img"}) - {"a", "form", "link", "script"}
"""What a page that the command line writes may consist of."""


def test_no_payload_becomes_markup_in_a_page_that_is_written(tmp_path: Path) -> None:
    strange, texts = list[str](), 0
    for path in pages(tmp_path):
        text = path.read_text(encoding="utf-8")
        read = Page(WRITTEN)
        read.feed(text)
        strange += read.strange
        texts += text.count("data-owned")
        digest = b64encode(hashlib.sha256("".join(read.styles).encode()).digest()).decode()
        assert len(read.policies) == 1
        assert "default-src 'none'" in read.policies[0]
        assert f"style-src 'sha256-{digest}'" in read.policies[0]
    assert texts > 10 * len(PAYLOADS)
    assert strange == []


@pytest.mark.skipif(BROWSER is None or not FULL, reason="make faults runs it, where a Chromium is installed")
def test_a_browser_runs_no_payload(tmp_path: Path) -> None:
    control = tmp_path / "control.html"
    control.write_text(f"<!doctype html><body><script>{RUN}</script>", encoding="utf-8")
    assert is_owned(control), "the control: a browser that runs nothing shows nothing"
    owned = [path.name for path in pages(tmp_path) if is_owned(path)]
    assert owned == []


def is_owned(path: Path) -> bool:
    """Whether a browser that shows a page runs what marks it."""
    assert BROWSER is not None
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--virtual-time-budget=3000")
    profile = f"--user-data-dir={path.parent / 'profile'}"
    command = [BROWSER, *options, profile, "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=True)
    assert "<html" in done.stdout
    return 'data-owned="1"' in done.stdout


__all__ = ["place", "settings"]


async def test_no_text_of_a_bank_becomes_markup_on_any_page(place: Location, settings: Settings) -> None:
    texts = PAYLOADS if FULL else PAYLOADS[::4]
    async with browsing(place, settings) as browser:
        await lay_everywhere(await browser.toolbox(), texts)
        pages = await browser.crawl(at_most=2000 if FULL else 60)
        for text in texts[:3]:
            for path in ("/memories", "/sources", "/ask", "/sessions"):
                answer = await browser.client.get(f"/ui{path}", params={"q": text, "kind": text, "status": text})
                pages[f"{path}?{text}"] = answer.text
    strange = list[str]()
    for path, page in pages.items():
        read = Page()
        read.feed(page)
        strange += [f"{path}: {each}" for each in read.strange]
    shown = sum(page.count("data-owned") for page in pages.values())
    assert shown > len(texts)
    assert strange == []
