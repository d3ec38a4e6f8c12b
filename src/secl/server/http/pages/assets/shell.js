// Keys, requests, links and updates: what all pages share. The server renders; nothing here is made from text.
const INTERVAL = 2000; // milliseconds between two updates
const KEY = "secl-key"; // in sessionStorage, which ends with the tab
const ROOT = new URL("../", import.meta.url); // of the overview, wherever a proxy has put it
export const $ = (id) => document.getElementById(id);
let updating = Promise.resolve(); // the latest update
let pendingUpdates = 0;
let visits = 0; // pages gone to in this tab

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// A request with the key, if there is one.
async function request(address, body) {
  const headers = {};
  const key = sessionStorage.getItem(KEY);
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body === undefined) return fetch(address, { headers, cache: "no-store" });
  headers["Content-Type"] = "application/json";
  return fetch(address, { method: "POST", headers, body: JSON.stringify(body) });
}

// The server's reply to a command or a question; a refusal is thrown with the server's own message.
export async function post(path, body) {
  let reply;
  try {
    reply = await request(new URL(path, ROOT), body);
  } catch {
    throw new Refused(0, "The server does not answer.");
  }
  const content = await reply.json().catch(() => ({}));
  if (reply.ok) return content;
  const message = content.error?.message ?? (typeof content.detail === "string" ? content.detail : null);
  if (reply.status === 401 || reply.status === 403) $("key-box")?.setAttribute("open", "");
  throw new Refused(reply.status, message ?? `The server refused with status ${reply.status}.`);
}

// The page at an address. A record that is not there has a page, too.
async function load(address) {
  const reply = await request(address);
  if (!reply.headers.get("Content-Type")?.startsWith("text/html")) throw new Error(String(reply.status));
  return new DOMParser().parseFromString(await reply.text(), "text/html");
}

function say(offline) {
  $("offline").textContent = offline ? "The server does not answer; below is the last that was seen of it." : "";
  $("offline").hidden = !offline;
}

// Whether somebody has gone to another page since; what waits for a reply asks before it goes anywhere itself.
export function newerVisit(own = 0) {
  visits += own;
  const known = visits;
  return () => visits !== known;
}

// Go to another page of this server without losing the key; the address and the history are as with a plain link.
// The latest visit wins: a slower one from before shows nothing.
export async function visit(address, { replace = false, back = false } = {}) {
  const overtaken = newerVisit(1);
  let fresh;
  try {
    fresh = await load(address);
  } catch {
    if (!overtaken()) say(true);
    return;
  }
  if (overtaken()) return;
  show(fresh);
  say(false);
  if (!back) history[replace ? "replaceState" : "pushState"](null, "", address);
  window.scrollTo(0, 0);
  $("main").focus({ preventScroll: true });
}

function show(fresh) {
  $("page").replaceWith(fresh.getElementById("page"));
  document.title = fresh.title;
  unlock();
}

// One update at a time, each after the commands before it.
export function refresh() {
  pendingUpdates += 1;
  updating = updating.then(update).finally(() => (pendingUpdates -= 1));
  return updating;
}

// Replace the parts that have changed; what is being typed, opened or read stays.
async function update() {
  const address = location.href;
  let fresh;
  try {
    fresh = await load(address);
  } catch {
    say(true);
    return;
  }
  say(false);
  if (address !== location.href) return;
  if ($("main").dataset.locked !== fresh.getElementById("main").dataset.locked) return show(fresh);
  for (const part of fresh.querySelectorAll("[data-live]")) replacePart($(part.id), part);
  unlock();
}

function replacePart(old, part) {
  unhide(part);
  if (!old || old.isEqualNode(part)) return;
  const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
  old.replaceWith(part);
  if (focused) $(focused)?.focus();
}

const unhide = (root) => root.querySelectorAll("button.act, .rating").forEach((each) => (each.hidden = false));

// Show what only a script can do.
function unlock() {
  unhide(document);
  if ($("ask")) $("ask").hidden = false;
  if ($("auto")) $("auto").textContent = "Kept up to date.";
  document.dispatchEvent(new Event("page"));
}

function useKey(event) {
  event.preventDefault();
  sessionStorage.setItem(KEY, $("key").value.trim());
  $("key").value = "";
  refresh().then(() => {
    const locked = $("main").dataset.locked;
    const place = locked ? $("trouble") : $("done");
    if (place) place.textContent = locked ? "That key opens nothing here." : "The key is in use.";
  });
}

// A link to a page of ours, followed in this tab.
function ours(event) {
  const link = event.target.closest?.("#page a[href]");
  const plain = !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey && event.button === 0;
  return link && plain && link.href.startsWith(ROOT.href) && !event.defaultPrevented ? link : null;
}

export function start() {
  const icon = document.querySelector("link[rel=icon]");
  icon.href = icon.href; // absolute, because browsers look for it again when the address changes
  document.addEventListener("submit", (event) => event.target.id === "key-form" && useKey(event));
  document.addEventListener("click", (event) => {
    const link = ours(event);
    if (link) {
      event.preventDefault();
      visit(link.href);
    }
    if (event.target.closest?.("#key-forget")) {
      sessionStorage.removeItem(KEY);
      refresh();
    }
  });
  window.addEventListener("popstate", () => visit(location.href, { back: true }));
  unlock();
  if (sessionStorage.getItem(KEY)) refresh();
  const live = () => !document.hidden && document.querySelector("[data-live], [data-locked]");
  setInterval(() => pendingUpdates > 0 || (live() && refresh()), INTERVAL);
  document.addEventListener("visibilitychange", () => live() && refresh());
}
