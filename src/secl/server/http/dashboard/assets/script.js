// Brings the page up to date, asks, and gives feedback and orders. The server draws; nothing here is made from text.
"use strict";

const EVERY = 2000; // milliseconds between two looks
const KEY = "secl-key"; // in sessionStorage, which ends with the tab
const $ = (id) => document.getElementById(id);
let record = null; // the name of the record whose answer is shown
let looking = Promise.resolve(); // the latest look
let looks = 0; // how many are not over

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// A request with the key, if there is one.
async function request(path, body) {
  const key = sessionStorage.getItem(KEY);
  const headers = key ? { Authorization: `Bearer ${key}` } : {};
  if (body === undefined) return fetch(path, { headers, cache: "no-store" });
  headers["Content-Type"] = "application/json";
  return fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
}

// The server's answer to an order or a question; what it refuses is thrown with its own words.
async function post(path, body) {
  let reply;
  try {
    reply = await request(path, body);
  } catch {
    throw new Refused(0, "The server does not answer.");
  }
  const said = await reply.json().catch(() => ({}));
  if (reply.ok) return said;
  const words = said.error?.message ?? (typeof said.detail === "string" ? said.detail : null);
  if (reply.status === 401 || reply.status === 403) $("key-box")?.setAttribute("open", "");
  throw new Refused(reply.status, words ?? `The server refused with status ${reply.status}.`);
}

// One look at a time, each after what was ordered before it.
function refresh() {
  looks += 1;
  looking = looking.then(look).finally(() => (looks -= 1));
  return looking;
}

// Exchange the parts that have changed; what is being typed, opened or read stays.
async function look() {
  let fresh;
  try {
    const reply = await request("./");
    if (!reply.ok) throw new Error(String(reply.status));
    fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
  } catch {
    $("offline").textContent = "The server does not answer; below is the last that was seen of it.";
    $("offline").hidden = false;
    return;
  }
  $("offline").hidden = true;
  if ($("main").dataset.locked !== fresh.getElementById("main").dataset.locked) {
    $("main").replaceWith(fresh.getElementById("main"));
    document.title = fresh.title;
  } else {
    for (const part of fresh.querySelectorAll("[data-live]")) exchange($(part.id), part);
  }
  unlock();
}

function exchange(old, part) {
  unhide(part);
  if (!old || old.isEqualNode(part)) return;
  const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
  old.replaceWith(part);
  if (focused) $(focused)?.focus();
}

const unhide = (root) => root.querySelectorAll("button.act").forEach((button) => (button.hidden = false));

// Show what only a script can do.
function unlock() {
  unhide(document);
  if ($("ask")) $("ask").hidden = false;
  if ($("auto")) $("auto").textContent = "Kept up to date.";
}

async function ask(event) {
  event.preventDefault();
  const button = event.target.querySelector("button");
  const options = $("options").value.split("\n").map((option) => option.trim()).filter(Boolean);
  const body = { question: $("question").value.trim() };
  if (options.length) body.options = options;
  $("trouble").textContent = "";
  button.disabled = true;
  button.textContent = "Asking …";
  try {
    show(await post("v1/ask", body));
    refresh();
  } catch (problem) {
    $("answer").hidden = true;
    $("trouble").textContent = problem.message;
  } finally {
    button.disabled = false;
    button.textContent = "Ask";
  }
}

const rounded = (p) => p.toFixed(2);

function show(reply) {
  const { confidence, frozen_confidence: frozen, bins, stored } = reply.secl;
  record = stored ? reply.secl.record_id : null;
  const answer = reply.answer ?? `Nothing readable: ${reply.text}`;
  $("said").textContent = reply.option_text ? `${answer}. ${reply.option_text}` : answer;
  $("confidence").textContent = rounded(confidence);
  $("gauge").setAttribute("width", 1000 * confidence);
  $("gauge-frozen").setAttribute("d", `M${1000 * frozen} -40V140`);
  $("gauge-title").textContent = `Stated confidence ${rounded(confidence)}, frozen model ${rounded(frozen)}`;
  $("frozen").textContent = `The frozen model says ${rounded(frozen)} (the mark on the bar).`;
  const most = Math.max(...bins);
  bins.forEach((p, k) => {
    const bar = document.querySelector(`[data-bin="${k}"]`);
    bar.setAttribute("height", (100 * p) / most);
    bar.setAttribute("y", 100 - (100 * p) / most);
    $("bin-numbers").children[k].textContent = p < 0.005 ? "·" : String(Math.round(100 * p));
  });
  $("bins-desc").textContent = bins.map((p, k) => `${k / 10} to ${(k + 1) / 10}: ${Math.round(100 * p)}%`).join(", ");
  const version = reply.secl.adapter_version;
  $("origin").textContent = `Percent of each tenth. Version ${version}, ${record ?? "not stored, so it cannot be judged"}.`;
  $("feedback-buttons").hidden = record === null;
  document.querySelectorAll("[data-correct]").forEach((button) => button.setAttribute("aria-pressed", "false"));
  $("thanks").textContent = "";
  $("answer").hidden = false;
  $("answer").scrollIntoView({ block: "nearest" });
}

async function judge(button) {
  $("trouble").textContent = "";
  try {
    await post("v1/feedback", { record_id: record, correct: button.dataset.correct === "true" });
  } catch (problem) {
    $("trouble").textContent = problem.message;
    return;
  }
  document.querySelectorAll("[data-correct]").forEach((each) => each.setAttribute("aria-pressed", String(each === button)));
  $("thanks").textContent = "Noted. It is used to measure, and nothing is learned from it.";
  refresh();
}

// An order of an admin, after a second thought where it changes what is answered.
async function order(path, body, done, question) {
  if (question && !window.confirm(question)) return;
  try {
    await post(path, body);
    $("done").textContent = done;
  } catch (problem) {
    $("done").textContent = problem.message;
  }
  refresh();
}

document.addEventListener("submit", (event) => {
  if (event.target.id === "ask") ask(event);
  if (event.target.id === "key-form") {
    event.preventDefault();
    sessionStorage.setItem(KEY, $("key").value.trim());
    $("key").value = "";
    refresh().then(() => {
      const locked = $("main").dataset.locked;
      (locked ? $("trouble") : $("done")).textContent = locked ? "That key opens nothing here." : "The key is in use.";
    });
  }
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  const { version, correct } = button.dataset;
  if (correct !== undefined) judge(button);
  if (button.id === "pause") order("v1/pause", { reason: "by hand, on the page" }, "Learning is paused.");
  if (button.id === "resume") order("v1/resume", {}, "Learning goes on.");
  if (version !== undefined) {
    const question = `Go back to version ${version}? Questions that wait for their lesson are dropped.`;
    order("v1/rollback", { version: Number(version) }, `Answers come from version ${version} now.`, question);
  }
  if (button.id === "key-forget") {
    sessionStorage.removeItem(KEY);
    refresh();
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.closest("#ask")?.requestSubmit();
});

unlock();
if (sessionStorage.getItem(KEY)) refresh();
setInterval(() => document.hidden || looks > 0 || refresh(), EVERY);
document.addEventListener("visibilitychange", () => document.hidden || refresh());
