// Keeps the page up to date, asks, and sends feedback and commands. The server renders; nothing here is made from text.
"use strict";

const INTERVAL = 2000; // milliseconds between two updates
const KEY = "secl-key"; // in sessionStorage, which ends with the tab
const $ = (id) => document.getElementById(id);
let record = null; // id of the record whose answer is shown
let updating = Promise.resolve(); // the latest update
let pendingUpdates = 0;

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

// The server's reply to a command or a question; a refusal is thrown with the server's own message.
async function post(path, body) {
  let reply;
  try {
    reply = await request(path, body);
  } catch {
    throw new Refused(0, "The server does not answer.");
  }
  const content = await reply.json().catch(() => ({}));
  if (reply.ok) return content;
  const message = content.error?.message ?? (typeof content.detail === "string" ? content.detail : null);
  if (reply.status === 401 || reply.status === 403) $("key-box")?.setAttribute("open", "");
  throw new Refused(reply.status, message ?? `The server refused with status ${reply.status}.`);
}

// One update at a time, each after the commands before it.
function refresh() {
  pendingUpdates += 1;
  updating = updating.then(update).finally(() => (pendingUpdates -= 1));
  return updating;
}

// Replace the parts that have changed; what is being typed, opened or read stays.
async function update() {
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
    for (const part of fresh.querySelectorAll("[data-live]")) replacePart($(part.id), part);
  }
  unlock();
}

function replacePart(old, part) {
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
const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function show(reply) {
  const { confidence, source, frozen_confidence: frozen, stated_confidence: stated, bins, stored } = reply.secl;
  record = stored ? reply.secl.record_id : null;
  const { accepted, accept } = reply.secl;
  const answer = reply.answer ?? (accepted === false ? reply.text : `Nothing readable: ${reply.text}`);
  $("said").textContent = reply.option_text ? `${answer}. ${reply.option_text}` : answer;
  $("confidence").textContent = rounded(confidence);
  $("gauge").setAttribute("width", 1000 * confidence);
  $("gauge-frozen").setAttribute("d", `M${1000 * frozen} -40V140`);
  const labels = reply.secl.labels === 0 ? "" : `, moved by ${reply.secl.labels} ratings`;
  const origin = source === "stated" ? "stated confidence" : "posterior probability that it is right";
  const mark = accepted === null ? "" : `; ${accepted ? "accepted" : "not accepted"} at ${accept}`;
  $("source").textContent = origin + labels + mark;
  $("remark").textContent = sentence(reply.secl.remark ?? "");
  $("remark").hidden = !reply.secl.remark;
  $("gauge-title").textContent = `Confidence ${rounded(confidence)}, stated by the frozen model ${rounded(frozen)}`;
  const also = source === "stated" ? "" : `The model states ${rounded(stated)}. `;
  $("frozen").textContent = `${also}The frozen model says ${rounded(frozen)} (the mark on the bar).`;
  showCandidates(reply);
  const most = Math.max(...bins);
  bins.forEach((p, k) => {
    const bar = document.querySelector(`[data-bin="${k}"]`);
    bar.setAttribute("height", (100 * p) / most);
    bar.setAttribute("y", 100 - (100 * p) / most);
    $("bin-numbers").children[k].textContent = p < 0.005 ? "·" : String(Math.round(100 * p));
  });
  $("bins-desc").textContent = bins.map((p, k) => `${k / 10} to ${(k + 1) / 10}: ${Math.round(100 * p)}%`).join(", ");
  const version = reply.secl.adapter_version;
  $("origin").textContent = `Percent of each tenth. Version ${version}, ${record ?? "not stored, so it takes no feedback"}.`;
  $("feedback-buttons").hidden = record === null;
  document.querySelectorAll("[data-correct]").forEach((button) => button.setAttribute("aria-pressed", "false"));
  $("thanks").textContent = "";
  $("answer").hidden = false;
  $("answer").scrollIntoView({ block: "nearest" });
}

// The candidates with their probabilities, and the model's own answer where another one was given.
function showCandidates(reply) {
  const { candidates, own_answer: own, own_confidence: chance } = reply.secl;
  $("own").hidden = !candidates || own === reply.answer || own === null;
  if (!$("own").hidden) $("own").textContent = `The model's own answer is ${own}, with ${rounded(chance ?? 0)}.`;
  $("candidates").hidden = !candidates;
  $("candidates").replaceChildren(
    ...(candidates ?? []).map(({ text, probability }) => {
      const item = document.createElement("li");
      item.textContent = `${rounded(probability)} ${text}`;
      return item;
    }),
  );
}

// Why a record got its number, below the list that its link stands in.
async function explain(link) {
  const place = $("explanation");
  try {
    const reply = await request(link.getAttribute("href"));
    if (!reply.ok) throw new Error();
    place.textContent = await reply.text();
  } catch {
    place.textContent = "The server does not explain this record.";
  }
  place.hidden = false;
  place.scrollIntoView({ block: "nearest" });
}

async function sendFeedback(button) {
  $("trouble").textContent = "";
  try {
    await post("v1/feedback", { record_id: record, correct: button.dataset.correct === "true" });
  } catch (problem) {
    $("trouble").textContent = problem.message;
    return;
  }
  document.querySelectorAll("[data-correct]").forEach((each) => each.setAttribute("aria-pressed", String(each === button)));
  $("thanks").textContent = "Noted. The confidence of the next answers follows; the model learns nothing from it.";
  refresh();
}

// How many lessons a command has dropped, in words.
function droppedIn({ dropped }) {
  if (!dropped) return "";
  return dropped === 1 ? "1 lesson that waited is dropped." : `${dropped} lessons that waited are dropped.`;
}

// A command of an admin, confirmed first where it changes what is answered.
async function command(path, body, done, question) {
  if (question && !window.confirm(question)) return;
  try {
    const reply = await post(path, body);
    $("done").textContent = [done, droppedIn(reply), reply.follows].filter(Boolean).join(" ");
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
  const link = event.target.closest("a.explain");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    explain(link);
  }
  const button = event.target.closest("button");
  if (!button) return;
  const { version, correct } = button.dataset;
  if (correct !== undefined) sendFeedback(button);
  if (button.id === "pause") command("v1/pause", { reason: "by hand, on the page" }, "Learning is paused.");
  if (button.id === "resume") command("v1/resume", {}, "Learning goes on.");
  if (version !== undefined) {
    const question = `Go back to version ${version}? Questions that wait for their lesson are dropped.`;
    command("v1/rollback", { version: Number(version) }, `Answers come from version ${version} now.`, question);
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
setInterval(() => document.hidden || pendingUpdates > 0 || refresh(), INTERVAL);
document.addEventListener("visibilitychange", () => document.hidden || refresh());
