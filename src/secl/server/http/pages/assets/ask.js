// Asking on the overview, saying whether the answer is right, and the commands of an admin.
import { $, post, refresh } from "./shell.js";

let record = null; // id of the record whose answer is shown
const answers = () => $("feedback-buttons").querySelectorAll("[data-correct]");

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
  const { confidence, source, frozen, stated, bins, stored } = reply.secl;
  record = stored ? reply.secl.record_id : null;
  const { accepted, accept } = reply.secl;
  const answer = reply.answer ?? (accepted === false ? reply.text : `Nothing readable: ${reply.text}`);
  $("said").textContent = reply.option_text ? `${answer}. ${reply.option_text}` : answer;
  $("confidence").textContent = rounded(confidence);
  $("gauge").setAttribute("width", 1000 * confidence);
  $("gauge-frozen").setAttribute("d", `M${1000 * frozen} -40V140`);
  const labels = reply.secl.labels === 0 ? "" : `, moved by ${reply.secl.labels} ratings`;
  const origin = source === "posterior" ? "posterior probability that it is right" : "stated confidence";
  const mark = accepted === null ? "" : `; ${accepted ? "accepted" : "not accepted"} at ${accept}`;
  $("source").textContent = origin + labels + mark;
  $("remark").textContent = sentence(reply.secl.remark ?? "");
  $("remark").hidden = !reply.secl.remark;
  $("gauge-title").textContent = `Confidence ${rounded(confidence)}, stated by the frozen model ${rounded(frozen)}`;
  const also = source === "posterior" ? `The model states ${rounded(stated)}. ` : "";
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
  answers().forEach((button) => button.setAttribute("aria-pressed", "false"));
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

async function sendFeedback(button) {
  $("trouble").textContent = "";
  try {
    await post("v1/feedback", { record_id: record, correct: button.dataset.correct === "true" });
  } catch (problem) {
    $("trouble").textContent = problem.message;
    return;
  }
  answers().forEach((each) => each.setAttribute("aria-pressed", String(each === button)));
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

document.addEventListener("submit", (event) => event.target.id === "ask" && ask(event));

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button");
  if (!button) return;
  if (button.closest("#feedback-buttons")) sendFeedback(button);
  if (button.id === "pause") command("v1/pause", { reason: "by hand, on the page" }, "Learning is paused.");
  if (button.id === "resume") command("v1/resume", {}, "Learning goes on.");
  const { version } = button.dataset;
  if (version !== undefined) {
    const question = `Go back to version ${version}? Questions that wait for their lesson are dropped.`;
    command("v1/rollback", { version: Number(version) }, `Answers come from version ${version} now.`, question);
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.closest("#ask")?.requestSubmit();
});
