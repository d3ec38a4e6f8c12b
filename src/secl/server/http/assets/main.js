// The script of all pages: keyboard shortcuts, and imports. Each function does nothing on pages without its elements.
import { $, start } from "./shell.js";
import "./ask.js";
import { current } from "./rating.js";

const press = (selector) => document.querySelector(selector)?.click();

const KEYS = {
  r: () => current()?.querySelector('[data-correct="true"]')?.click(),
  w: () => current()?.querySelector('[data-correct="false"]')?.click(),
  a: () => press(".rating [data-rest]"),
  s: () => press(".rating [data-skip]"),
  u: () => press('.rating.whole [data-correct="null"], #undo'),
  "/": () => ($("query") ? $("query").focus() : press('nav a[href$="records"]')),
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, event.key)) return;
  event.preventDefault();
  KEYS[event.key]();
});

start();
