"""Makes the pictures of the README: pages of a bank that learned from the shipped session, as a Chromium shows them.

python scripts/pictures.py [--out docs/pictures]

Needs Pillow and playwright. What was learned is restored as the user would, so that it is in use.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

WIDTH, HEIGHT = 1120, 760
SESSION = Path(__file__).resolve().parent.parent / "server" / "cli" / "demo" / "session.jsonl"
PROMPT = "Run pytest and make the tests pass."
CLI = [sys.executable, "-I", "-m", "swarm_memory.server.cli"]


def main() -> None:
    """Learn, open the pages, and take a picture of a task, a memory and an answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/pictures"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        project = Path(home, "shop")
        project.mkdir()
        environment = {"PATH": os.environ["PATH"], "HOME": home}
        learned = run_in(project, environment, "learn", "--json", str(SESSION))
        run_in(project, environment, "memories", "restore", *json.loads(learned)["stored"])
        with subprocess.Popen(
            [*CLI, "ui", "--no-browser"], cwd=project, env=environment, stdout=subprocess.PIPE, text=True
        ) as pages:
            assert pages.stdout is not None
            try:
                take(pages.stdout.readline().removeprefix("swarm-memory: ").strip(), options.out)
            finally:
                pages.terminate()


def run_in(project: Path, environment: dict[str, str], *words: str) -> str:
    """Run a command in a project and return what it prints."""
    done = subprocess.run([*CLI, *words], cwd=project, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def take(link: str, out: Path) -> None:
    """Follow the link, and take the pictures."""
    origin = link.partition("/ui")[0]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(link)
        page.wait_for_url(re.compile("/ui$"))
        page.goto(f"{origin}/ui/memories")
        page.locator("main a[href^='/ui/memories/rm_']").first.click()
        save(page, out / "memory.png")
        page.get_by_text("The whole task").click()
        save(page, out / "task.png")
        page.goto(f"{origin}/ui/ask")
        page.locator("main textarea").fill(PROMPT)
        page.locator("main form button").first.click()
        page.wait_for_load_state()
        save(page, out / "ask.png")
        browser.close()


def save(page: Page, path: Path) -> None:
    """Write a picture of the window, scrolled to the top of the page."""
    page.evaluate("scrollTo(0, 0)")
    with Image.open(BytesIO(page.screenshot())) as picture:
        picture.convert("RGB").quantize(200).save(path, optimize=True)


if __name__ == "__main__":
    main()
