// Keys, requests and updates: what all pages share. The server renders; nothing here is made from text.
const INTERVAL = 2000; // milliseconds between two updates
const KEY = "secl-key"; // in sessionStorage, which ends with the tab
const ROOT = new URL("../", import.meta.url); // of the overview, wherever a proxy has put it
export const $ = (id) => document.getElementById(id);
let updating = Promise.resolve(); // the latest update
let pendingUpdates = 0;

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
    throw new Error("The server does not answer.");
  }
  const content = await reply.json().catch(() => ({}));
  if (reply.ok) return content;
  const message = content.error?.message ?? (typeof content.detail === "string" ? content.detail : null);
  if (reply.status === 401 || reply.status === 403) $("key-box")?.setAttribute("open", "");
  throw new Error(message ?? `The server refused with status ${reply.status}.`);
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
  let fresh;
  try {
    fresh = await load(location.href);
  } catch {
    say(true);
    return;
  }
  say(false);
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

export function start() {
  document.addEventListener("submit", (event) => event.target.id === "key-form" && useKey(event));
  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("#key-forget")) return;
    sessionStorage.removeItem(KEY);
    refresh();
  });
  unlock();
  if (sessionStorage.getItem(KEY)) refresh();
  const live = () => !document.hidden && document.querySelector("[data-live], [data-locked]");
  setInterval(() => pendingUpdates > 0 || (live() && refresh()), INTERVAL);
  document.addEventListener("visibilitychange", () => live() && refresh());
}
