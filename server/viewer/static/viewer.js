// Follows what happens, searches while one types, and gives keys to what is done. Every page works without it.
"use strict";

const FOLLOW_MS = 5000;
const TYPING_MS = 250;
let tag = "", drawn = 0;

/** True while something on the page would be lost if it were shown again. */
function inUse() {
  const active = document.activeElement;
  const typing = active instanceof HTMLElement && active.matches("input, textarea, select");
  const selected = String(getSelection() ?? "") !== "";
  const edited = [...document.querySelectorAll("main input, main textarea")].some((each) => each.value !== each.defaultValue || each.checked !== Boolean(each.defaultChecked));
  return typing || selected || edited;
}

/** Draw the page of an address again, where it is not as it was; an answer that a later request overtook is dropped. */
async function draw(address) {
  const turn = ++drawn;
  const answer = await fetch(address, { headers: tag ? { "If-None-Match": tag } : {} });
  if (answer.status === 401) location.reload();
  if (!answer.ok) return;
  const main = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
  if (!main || turn !== drawn) return;
  tag = answer.headers.get("ETag") ?? "";
  const focused = document.activeElement?.id;
  const row = focusedCard()?.querySelector("a")?.href;
  const open = new Set([...document.querySelectorAll("main details[open][id]")].map((each) => each.id));
  const search = document.querySelector("form[data-live]");
  for (const each of main.querySelectorAll("details[id]")) each.open = each.open || open.has(each.id);
  const kept = search && main.querySelector("form[data-live]");
  if (kept) kept.replaceWith(search);
  document.querySelector("main").replaceWith(main);
  const rows = row ? [...document.querySelectorAll("[data-card]")].filter((each) => each.querySelector("a")?.href === row) : [];
  (focused ? document.getElementById(focused) : rows[0])?.focus({ preventScroll: true });
}

async function follow() {
  if (document.visibilityState === "visible" && !inUse()) {
    try {
      await draw(location.href);
    } catch {
      // The server is gone: the next look may find it again.
    }
  }
  setTimeout(follow, FOLLOW_MS);
}

let typing = 0;
document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-live]");
  if (!form) return;
  clearTimeout(typing);
  typing = setTimeout(() => {
    const address = `${form.action.split("?")[0]}?${new URLSearchParams(new FormData(form))}`;
    history.replaceState(null, "", address);
    draw(address);
  }, TYPING_MS);
});

const focusedCard = () => document.activeElement?.closest("[data-card]");

/** The card, or row, that keys act on: the focused one, else the first of which the beginning is in view. */
function cardInView() {
  const seen = (each) => each.getBoundingClientRect().top >= 0 && each.getBoundingClientRect().top < innerHeight;
  return focusedCard() ?? [...document.querySelectorAll("[data-card]")].find(seen);
}

/** Move between cards or rows; from none to the first in view. */
function move(by) {
  const cards = [...document.querySelectorAll("[data-card]")];
  const at = cards.indexOf(focusedCard());
  const next = at < 0 ? cardInView() : cards[Math.min(Math.max(at + by, 0), cards.length - 1)];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

let going = false;
function go(letter) {
  document.querySelector(`header [data-go="${CSS.escape(letter)}"]`)?.click();
}

/** Do what a key stands for; false where it stands for nothing here. */
function press(key) {
  const card = cardInView();
  if (key === "j" || key === "k") move(key === "j" ? 1 : -1);
  else if (key === "g") going = true;
  else if (key === "?") document.getElementById("keys").showModal();
  else if (key === "/") document.querySelector("main input[type=search], main textarea")?.focus();
  else if (key === "x") card?.querySelector("input[type=checkbox]")?.click();
  else if (key === "Enter") return document.activeElement === card && !card.querySelector("a")?.click();
  else {
    const named = `[data-key="${CSS.escape(key)}"]`;
    const button = card?.querySelector(named) ?? [...document.querySelectorAll(named)].find((each) => !each.closest("[data-card]"));
    if (!button) return false;
    button.click();
  }
  return true;
}

document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "Enter") event.target.closest("form")?.requestSubmit();
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input:not([type=checkbox]), textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (going) {
    going = false;
    go(event.key);
  } else if (!press(event.key)) return;
  event.preventDefault();
});

document.addEventListener("click", (event) => {
  const more = document.querySelector(".more[open]");
  if (more && !more.contains(event.target)) more.open = false;
  if (event.target.closest(".more [data-key]")) document.getElementById("keys").showModal();
  if (event.target.id === "all") {
    for (const each of document.querySelectorAll("input[form=many]")) each.checked = event.target.checked;
  }
});

setTimeout(follow, FOLLOW_MS);
