// The form for questions on the overview.
import { $, post } from "./shell.js";

// Ask, and go to the page of the record, which explains the confidence.
async function ask(event) {
  event.preventDefault();
  const form = event.target;
  const button = form.querySelector("button");
  const options = $("options").value.split("\n").map((option) => option.trim()).filter(Boolean);
  button.disabled = true;
  button.textContent = "Asking …";
  try {
    const { text, confidence, record_id } = await post("v1/ask", { question: $("question").value.trim(), options });
    if (record_id && form.dataset.texts === "full") return location.assign(`records/${record_id}`);
    const where = record_id ? "this server keeps no texts" : "the answer is not stored";
    $("trouble").textContent = `${text ?? "No readable answer"} (confidence ${confidence?.toFixed(2) ?? "unknown"}); ${where}.`;
  } catch (problem) {
    $("trouble").textContent = problem.message;
  }
  button.disabled = false;
  button.textContent = "Ask";
}

document.addEventListener("submit", (event) => event.target.id === "ask" && ask(event));
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.closest("#ask")?.requestSubmit();
});
