"""Only an authorized browser sees a page, and only our own forms change anything."""

import pytest
from clock import Watch

from swarm_memory.schema.settings import Settings
from swarm_memory.server.location import Location
from swarm_memory.server.viewer.page import KEY_LIFETIME_S, MAX_SESSIONS, SESSION_IDLE_S, BrowserSessions
from tests.viewer.browsed import NAMES, ORIGIN, Browsing, browsing

pytestmark = pytest.mark.attack


def cookie(access: BrowserSessions, value: str | None) -> dict[str, object]:
    """Return the scope of a request with that cookie."""
    return {"type": "http", "headers": [(b"cookie", f"{access.cookie}={value}".encode())]}


async def test_a_browser_without_the_link_is_shown_how_to_come_in_and_nothing_else(
    place: Location, settings: Settings
) -> None:
    async with browsing(place, settings, let_in=False) as stranger:
        answer = await stranger.client.get("/ui")
        assert answer.status_code == 401
        assert "Sign in with a link" in answer.text
        assert place.root.name not in answer.text
        assert not place.database.with_name("memory.db-wal").exists(), "the bank was opened for a stranger"


async def test_a_link_lets_in_once(browser: Browsing) -> None:
    link = f"/ui/enter?key={browser.access.new_key()}"
    browser.client.cookies.clear()
    assert (await browser.client.get(link)).status_code == 200
    assert "Overview" in await browser.page()
    browser.client.cookies.clear()
    assert (await browser.client.get(link)).status_code == 401


def test_a_link_and_a_browser_that_was_not_heard_of_hold_for_their_time() -> None:
    now = Watch()
    access = BrowserSessions(NAMES, now=now)
    key, late = access.new_key(), access.new_key()
    now.at += KEY_LIFETIME_S
    value = access.enter(key)
    assert value is not None
    now.at += SESSION_IDLE_S
    assert access.enter(late) is None
    assert access.session(cookie(access, value))
    now.at += SESSION_IDLE_S + 1
    assert not access.session(cookie(access, value))


def test_of_many_browsers_the_one_not_heard_of_for_longest_gives_way() -> None:
    access = BrowserSessions(NAMES)
    values = [access.enter(access.new_key()) for _ in range(MAX_SESSIONS)]
    assert access.session(cookie(access, values[0]))
    access.enter(access.new_key())
    assert access.session(cookie(access, values[0]))
    assert not access.session(cookie(access, values[1]))


async def test_the_bearer_token_of_a_server_lets_in_and_a_wrong_one_does_not(browser: Browsing) -> None:
    browser.client.cookies.clear()
    form = {"content-type": "application/x-www-form-urlencoded", "origin": ORIGIN}
    wrong = await browser.client.post("/ui/enter", content="token=wrong", headers=form)
    assert wrong.status_code == 401
    assert "not the token" in wrong.text
    right = "token=token-of-the-server-that-is-long-enough"
    assert (await browser.client.post("/ui/enter", content=right, headers=form)).status_code == 200
    assert "Overview" in await browser.page()


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8765", "localhost.:8765", ""])
async def test_a_name_that_was_led_here_sees_nothing(browser: Browsing, host: str) -> None:
    answer = await browser.client.get("/ui", headers={"host": host})
    assert answer.status_code in (400, 421)
    assert "memories" not in answer.text


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:9", "LOCALHOST:8765"])
async def test_our_own_names_are_heard_with_any_port(browser: Browsing, host: str) -> None:
    assert (await browser.client.get("/ui", headers={"host": host})).status_code == 200


async def test_a_form_of_another_page_changes_nothing(browser: Browsing) -> None:
    for origin in ("https://evil.example", "null", "", "http://127.0.0.1:1"):
        await browser.post("/leave", origin=origin, status=403)
    await browser.post("/leave", status=403, form_token="guessed")
    assert "Overview" in await browser.page()
    await browser.post("/leave", status=401)
    await browser.page(status=401)


async def test_every_answer_forbids_scripts_frames_and_what_comes_from_elsewhere(browser: Browsing) -> None:
    for path, status in (("", 200), ("/nowhere", 404), ("/enter", 401)):
        headers = (await browser.client.get(f"/ui{path}")).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy, (path, status)
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["referrer-policy"] == "same-origin"  # otherwise a browser sends no origin when it posts a form
        assert headers["cache-control"] == "no-store"


async def test_a_form_too_long_or_none_is_refused_and_a_page_as_it_was_is_not_sent_again(browser: Browsing) -> None:
    headers = {"origin": ORIGIN}
    assert (await browser.client.post("/ui/leave", content=b"a=" + b"x" * 300_000, headers=headers)).status_code == 413
    assert (await browser.client.post("/ui/leave", content=b"\xff\xfe", headers=headers)).status_code == 400
    assert (await browser.client.post("/ui/leave", content="&".join(["a=b"] * 999), headers=headers)).status_code == 400
    first = await browser.client.get("/ui")
    again = await browser.client.get("/ui", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_style_and_script_come_from_here_and_nothing_else_does(browser: Browsing) -> None:
    page = await browser.page()
    for name in ("viewer.css", "viewer.js", "icon.svg"):
        address = next(part for part in page.split('"') if part.endswith(name))
        assert (await browser.client.get(address)).status_code == 200
    assert (await browser.client.get("/ui/static/x/viewer.py")).status_code == 404
    assert (await browser.client.get("/ui/static/x/..%2Fviewer.py")).status_code == 404


async def test_a_page_that_is_not_there_keeps_the_menu(browser: Browsing) -> None:
    assert 'href="/ui/memories"' in await browser.page("/memories/rm_01J8XYZ0123456789ABCDEFGH", status=400)
    assert 'href="/ui/memories"' in await browser.page("/nowhere", status=404)
