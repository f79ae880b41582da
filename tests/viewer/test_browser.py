"""The pages in a real Chromium: each one light and dark, narrow and wide, by keyboard, on a bank that attacks them."""

import os
import re
import shutil
import subprocess
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from forked import CLI, Forked
from laid_bank import BY_TABLE, laid
from patience import FULL, HANG_S, STATIC

from swarm_memory.schema.settings import Settings
from swarm_memory.server.wiring import opened_toolbox, place_of
from swarm_memory.tools.memories.remember import remember
from tests.viewer.hostile_bank import lay_everywhere
from tests.viewer.payloads import payloads

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Error, Page, Request, Route

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
BROWSER = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
AXE = Path(__file__).parents[1] / "node" / "node_modules" / "axe-core" / "axe.min.js"
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.allow_hosts(["127.0.0.1"]),
    pytest.mark.skipif(BROWSER is None, reason="needs a Chromium: apt-get install chromium"),
    pytest.mark.skipif(not AXE.exists(), reason="needs axe-core: npm ci --prefix tests/node"),
]
ASKED = (
    "/ui/memories?q=script+alert",
    "/ui/ask?q=script+alert",
    "/ui/review?kind=quarantined",
    "/ui/review?kind=unverified",
)
"""Pages that show more with a query than without one."""


@dataclass
class Seen:
    """A browser for the pages, and what went wrong in it."""

    origin: str
    browser: "Browser"
    state: Any
    wrong: list[str] = field(default_factory=list[str])

    def open(self, path: str = "/ui", *, dark: bool = False, width: int = 1280, script: bool = True) -> "Page":
        """Return a tab on a page."""
        context = self.browser.new_context(
            storage_state=self.state,
            color_scheme="dark" if dark else "light",
            viewport={"width": width, "height": 800},
            java_script_enabled=script,
        )
        context.set_default_timeout(HANG_S * 1000)
        page = context.new_page()
        page.on("console", self._said)
        page.on("pageerror", self._failed)
        page.on("dialog", self._interrupted)
        page.on("request", self._asked)
        page.goto(self.origin + path)
        return page

    def _said(self, said: "ConsoleMessage") -> None:
        if said.type == "error":
            self.wrong.append(said.text)

    def _failed(self, error: "Error") -> None:
        self.wrong.append(str(error))

    def _interrupted(self, dialog: "Dialog") -> None:
        self.wrong.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    def _asked(self, request: "Request") -> None:
        if not request.url.startswith(self.origin):
            self.wrong.append(f"asked {request.url}")

    @cached_property
    def paths(self) -> list[str]:
        """The pages of the menu, and the first linked page of each kind below them."""
        page = self.open()
        found = [each.get_attribute("href") or "" for each in page.locator("header nav a").all()]
        for path in list(found):
            page.goto(self.origin + path)
            links = "all => all.map(each => each.getAttribute('href'))"
            linked = [each.partition("#")[0] for each in page.eval_on_selector_all("main a[href^='/ui/']", links)]
            kinds = {each.partition("?")[0].rpartition("/")[0]: each for each in reversed(linked)}
            found += [each for kind, each in kinds.items() if kind != "/ui" and each not in found]
        page.context.close()
        return [*found, *ASKED]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Generator[Seen]:
    """A browser that followed the link from `swarm-memory ui`, on a bank with attacks wherever text may be."""
    folder, home = tmp_path_factory.mktemp("shop"), tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.delenv("XDG_STATE_HOME", raising=False)
        anyio.run(_fill, folder)
    environment = {**STATIC, "PATH": os.environ["PATH"], "HOME": str(home)}
    with Forked([*CLI, "ui", "--no-browser"], cwd=folder, env=environment, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            link = line.removeprefix("swarm-memory: ").strip()
            with sync_api.sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=BROWSER, args=[*QUIET])
                page = browser.new_page()
                page.goto(link)
                page.wait_for_url(re.compile("/ui$"))
                state = page.context.storage_state()
                page.context.close()
                yield Seen(link.partition("/ui")[0], browser, state)
                browser.close()
        finally:
            process.kill()


async def _fill(folder: Path) -> None:
    settings = Settings(embedding=BY_TABLE)
    place = place_of(folder, settings)
    laid(place.database)
    async with opened_toolbox(place, settings) as toolbox:
        for said in ("Run", "Never run"):
            await remember(toolbox, f"{said} `make migrate` before the tests of the shop", "procedure")
        await lay_everywhere(toolbox, list(payloads())[:: 1 if FULL else 18])


def test_every_page_can_be_read_by_everybody_and_runs_nothing_that_a_bank_holds(seen: Seen) -> None:
    owned, barred, wide = list[str](), list[str](), list[str]()
    page = seen.open(width=360)
    page.context.add_init_script(path=AXE)
    for path in seen.paths:
        page.goto(seen.origin + path)
        if page.evaluate("document.documentElement.hasAttribute('data-owned')"):
            owned.append(path)
        if page.evaluate("document.documentElement.scrollWidth") > 360:
            wide.append(path)
        barred += [f"{path}: {each}" for each in serious(page, {})]
        page.emulate_media(color_scheme="dark")
        barred += [f"{path}, dark: {each}" for each in serious(page, {"runOnly": ["color-contrast"]})]
        page.emulate_media(color_scheme="light")
    page.context.close()
    assert (owned, seen.wrong, barred, wide) == ([], [], [], [])
    assert len(seen.paths) > 8


def serious(page: "Page", options: dict[str, Any]) -> list[str]:
    """Return what axe-core finds on a page that keeps people from reading it."""
    found = page.evaluate("options => axe.run(options)", {"resultTypes": ["violations"], **options})["violations"]
    kept = [each for each in found if each["impact"] in ("serious", "critical")]
    return [f"{each['id']}: {each['nodes'][0]['html'][:160]}" for each in kept]


def test_every_page_works_without_a_script(seen: Seen) -> None:
    page = seen.open(script=False)
    for path in seen.paths:
        page.goto(seen.origin + path)
        assert page.locator("main h1").count() == 1, path
    page.context.close()


def test_a_page_follows_what_happens(seen: Seen) -> None:
    page = seen.open("/ui")
    sentence = page.locator("main h1").inner_text()
    page.evaluate("window.kept = true; document.querySelector('main h1').textContent = 'an old page'")
    page.locator("main h1", has_text=sentence).wait_for()
    assert page.evaluate("window.kept"), "the page was loaded again"
    page.context.close()


def test_the_keyboard_reaches_the_search_and_what_is_typed_is_found(seen: Seen) -> None:
    page = seen.open("/ui/sources")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("/")
    held = list["Route"]()
    page.route("**/*q=s&*", lambda route: held.append(route))
    with page.expect_request("**/*q=s&*"):
        page.keyboard.type("s")
    page.keyboard.insert_text("cript")
    page.wait_for_url("**/*q=script&*")
    page.locator("#found").wait_for()
    found = page.locator("main").inner_text()
    with page.expect_response("**/*q=s&*") as overtaken:
        held[0].continue_()
    overtaken.value.finished()
    assert page.evaluate("new Promise(requestAnimationFrame).then(() => document.activeElement.id)") == "q"
    assert page.locator("main").inner_text() == found, "an answer to what was typed before took its place"
    page.context.close()


def test_what_waits_is_decided_by_keys_and_a_decision_taken_back(seen: Seen) -> None:
    page = seen.open("/ui/review?kind=contradicting")
    nothing, card = page.get_by_text("Nothing contradicts another memory."), page.locator("[data-card]")
    for key in ("j", "j", "k"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement === document.querySelector('[data-card]')")
    for key, done in (("y", "Kept"), ("m", "Merged"), ("W", "Withdrawn")):
        page.keyboard.press(key)
        page.locator(".notice", has_text=done).wait_for()
        nothing.wait_for()
        page.keyboard.press("u")
        page.locator(".notice", has_text="Undone").wait_for()
        card.wait_for()
    page.keyboard.press("e")
    page.locator("textarea[name=content]").fill("1. Said again.")
    page.locator("form.edit button").click()
    page.locator(".notice", has_text="Changed").wait_for()
    page.locator(".notice button").click()
    page.locator(".notice", has_text="Undone: edit").wait_for()
    page.context.close()


def test_keys_go_places_mark_rows_and_send_what_is_typed(seen: Seen) -> None:
    page = seen.open("/ui")
    page.keyboard.press("?")
    page.locator("dialog[open]").wait_for()
    page.keyboard.press("g")  # while the list of keys is open, nothing else reacts to keys
    page.keyboard.press("Escape")
    for letter, path in (("s", "sessions"), ("p", "ask")):
        page.keyboard.press("g")
        page.keyboard.press(letter)
        page.wait_for_url(f"**/ui/{path}")
    page.keyboard.press("/")
    page.keyboard.type("run the migration")
    page.keyboard.press("Control+Enter")
    page.wait_for_url("**/ui/ask?q=run+the+migration")
    page.goto(seen.origin + "/ui/memories")
    for key in ("j", "x", "j", "x"):
        page.keyboard.press(key)
    assert page.locator("input[form=many]:checked").count() == 2
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/memories/rm_*")
    page.context.close()
