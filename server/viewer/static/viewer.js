// Follows what happens, searches while one types, and gives keys to buttons. Every page works without it.
"use strict";

const FOLLOW_MS = 5000;
const TYPING_MS = 250;
let tag = "";

/** True while something on the page would be lost if it were shown again. */
function inUse() {
  const active = document.activeElement;
  const typing = active instanceof HTMLElement && active.matches("input, textarea, select");
  const selected = String(getSelection() ?? "") !== "";
  const edited = [...document.querySelectorAll("main input, main textarea")].some((each) => each.value !== each.defaultValue);
  return typing || selected || edited;
}

/** Draw the page of an address again, where it is not as it was. */
async function draw(address) {
  const answer = await fetch(address, { headers: tag ? { "If-None-Match": tag } : {} });
  if (answer.status === 401) location.reload();
  if (!answer.ok) return;
  tag = answer.headers.get("ETag") ?? "";
  const main = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
  if (!main) return;
  const focused = document.activeElement?.id;
  const open = new Set([...document.querySelectorAll("main details[open][id]")].map((each) => each.id));
  const search = document.querySelector("form[data-live]");
  for (const each of main.querySelectorAll("details[id]")) each.open = each.open || open.has(each.id);
  const kept = search && main.querySelector("form[data-live]");
  if (kept) kept.replaceWith(search);
  document.querySelector("main").replaceWith(main);
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
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

/** Move between the cards of a desk. */
function move(by) {
  const cards = [...document.querySelectorAll("[data-card]")];
  const at = cards.indexOf(document.activeElement?.closest("[data-card]"));
  const next = cards[Math.min(Math.max(at + by, 0), cards.length - 1)];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "/") document.querySelector("main input[type=search]")?.focus();
  else if (event.key === "j") move(1);
  else if (event.key === "k" && document.querySelector("[data-card]")) move(-1);
  else {
    const near = document.activeElement?.closest("[data-card]") ?? document;
    const button = [near, document].map((each) => each.querySelector(`[data-key="${CSS.escape(event.key)}"]`)).find(Boolean);
    if (!button || (button.closest("[data-card]") && near === document)) return;
    button.click();
  }
  event.preventDefault();
});

setTimeout(follow, FOLLOW_MS);
