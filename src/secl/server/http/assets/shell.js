// Functions of all pages: API key, requests, and updates of the overview. The server renders all HTML.
const INTERVAL = 2000; // milliseconds between two updates
const KEY = "secl-key"; // in sessionStorage, which the browser deletes when the tab closes
const ROOT = new URL("../", import.meta.url); // address of the overview, also behind a proxy
export const $ = (id) => document.getElementById(id);

// Send a request, with the key if the user has entered one.
function request(address, body) {
  const key = sessionStorage.getItem(KEY);
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  if (body === undefined) return fetch(address, { headers, cache: "no-store" });
  headers["Content-Type"] = "application/json";
  return fetch(address, { method: "POST", headers, body: JSON.stringify(body) });
}

// Send a question or a rating, and return the server's reply. Throw an Error with the message of a failed request.
export async function post(path, body) {
  const reply = await request(new URL(path, ROOT), body).catch(() => {
    throw new Error("The server does not answer.");
  });
  const content = await reply.json().catch(() => ({}));
  if (reply.ok) return content;
  if (reply.status === 401 || reply.status === 403) $("key-box")?.setAttribute("open", "");
  throw new Error(content.error?.message ?? `The server refused with status ${reply.status}.`);
}

// Fetch the page again. If the page now asks for a key, or no longer asks, replace the whole page. Otherwise replace only
// the element with data-refresh.
async function refresh() {
  const reply = await request(location.href).catch(() => null);
  const found = reply?.headers.get("Content-Type")?.startsWith("text/html");
  $("offline").hidden = Boolean(found);
  if (!found) return;
  const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
  const turned = $("main").dataset.locked !== fresh.getElementById("main").dataset.locked;
  const [old, part] = [document, fresh].map((page) => page.querySelector(turned ? "#page" : "[data-refresh]"));
  if (turned) document.title = fresh.title;
  if (turned || (old && !old.isEqualNode(part) && !old.contains(document.activeElement))) old.replaceWith(part);
  if (turned) document.dispatchEvent(new Event("page"));
}

async function useKey(event) {
  event.preventDefault();
  sessionStorage.setItem(KEY, $("key").value.trim());
  $("key").value = "";
  await refresh();
  const locked = $("main").dataset.locked;
  const place = $(locked ? "trouble" : "done");
  if (place) place.textContent = locked ? "This key does not open this page." : "The key is in use.";
}

export async function start() {
  document.addEventListener("submit", (event) => event.target.id === "key-form" && useKey(event));
  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("#key-forget")) return;
    sessionStorage.removeItem(KEY);
    refresh();
  });
  document.dispatchEvent(new Event("page"));
  if (sessionStorage.getItem(KEY)) await refresh();
  for (;;) {
    await new Promise((later) => setTimeout(later, INTERVAL));
    if (!document.hidden && document.querySelector("[data-refresh]")) await refresh();
  }
}
