// Asking on the overview, and the commands of an admin.
import { $, post, refresh } from "./shell.js";

// Ask, and go to the page of the record: it says how sure the model is and why, and takes the rating.
async function ask(event) {
  event.preventDefault();
  const button = event.target.querySelector("button");
  const options = $("options").value.split("\n").map((option) => option.trim()).filter(Boolean);
  const body = { question: $("question").value.trim() };
  if (options.length) body.options = options;
  const say = (text) => ($("trouble").textContent = text);
  say("");
  button.disabled = true;
  button.textContent = "Asking …";
  try {
    const { text, confidence, record_id } = await post("v1/ask", body);
    const stored = record_id && event.target.dataset.texts === "full";
    const where = record_id ? "its text is not stored" : "it is not stored";
    if (!stored) say(`${text ?? "The answer could not be read"} (confidence ${confidence?.toFixed(2) ?? "unknown"}); ${where}.`);
    else location.assign(`records/${record_id}`);
  } catch (problem) {
    say(problem.message);
  } finally {
    button.disabled = false;
    button.textContent = "Ask";
  }
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
    $("done").textContent = [done, droppedIn(reply)].filter(Boolean).join(" ");
  } catch (problem) {
    $("done").textContent = problem.message;
  }
  refresh();
}

document.addEventListener("submit", (event) => event.target.id === "ask" && ask(event));

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button");
  if (!button) return;
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
