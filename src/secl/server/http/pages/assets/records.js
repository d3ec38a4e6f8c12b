// The search form, and the keys of records and reviews.
import { $, visit } from "./shell.js";

document.addEventListener("submit", (event) => {
  if (event.target.id !== "search") return;
  event.preventDefault();
  const values = [...new FormData(event.target)].filter(([, value]) => value.trim());
  const address = new URL("records", location.href);
  address.search = new URLSearchParams(values);
  visit(address);
});

const press = (selector) => document.querySelector(selector)?.click();

const KEYS = {
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
