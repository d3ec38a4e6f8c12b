// The search form, and the keys of lists, records and reviews.
import { $, visit } from "./shell.js";

document.addEventListener("submit", (event) => {
  if (event.target.id !== "search") return;
  event.preventDefault();
  const values = [...new FormData(event.target)].filter(([, value]) => value.trim());
  const address = new URL("records", location.href);
  address.search = new URLSearchParams(values);
  visit(address);
});

// The next link of a list, or the one before it.
function step(links, by) {
  const at = links.indexOf(document.activeElement.closest("a"));
  links[Math.max(0, Math.min(links.length - 1, at + by))]?.focus();
}

const press = (selector) => document.querySelector(selector)?.click();

function move(by) {
  const links = [...document.querySelectorAll("#rows a")];
  if (links.length) step(links, by);
  else if ($("undo")) press(by > 0 ? ".rating [data-skip]" : "#undo");
  else press(by > 0 ? "a[rel=next]" : "a[rel=prev]");
}

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  ArrowRight: () => $("rows") || move(1),
  ArrowLeft: () => $("rows") || move(-1),
  r: () => press('.rating [data-correct="true"]'),
  w: () => press('.rating [data-correct="false"]'),
  s: () => press(".rating [data-skip]"),
  u: () => press('.rating [data-correct="null"], #undo'),
  "/": () => ($("query") ? $("query").focus() : press('nav a[href$="records"]')),
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
});
