// Buttons that rate an answer: on the review page, and on the page of a record.
import { $, post } from "./shell.js";

const DONE = "secl-rated"; // key in sessionStorage: ids of the answers of this review in the order shown

const box = () => document.querySelector(".rating");
const done = () => JSON.parse(sessionStorage.getItem(DONE) ?? "[]");
const keep = (answers) => sessionStorage.setItem(DONE, JSON.stringify(answers));

// Send a label of an answer; return whether the server stored it.
async function said(body) {
  try {
    await post("v1/feedback", body);
    return true;
  } catch (problem) {
    $("trouble").textContent = problem.message;
    return false;
  }
}

async function rate(correct) {
  const { record, drawn, next } = box().dataset;
  const body = { record_id: record, correct };
  if (drawn && correct !== null) body.drawn = true;
  if (!(await said(body))) return;
  if ($("undo")) go(next);
  else location.reload();
}

// Store that a person saw the answer and gave no judgement.
async function skip() {
  const { record, next } = box().dataset;
  if (await said({ record_id: record, correct: null, skipped: true, drawn: true })) go(next);
}

// Go to the next answer of a review.
function go(next) {
  keep([...done(), box().dataset.record]);
  location.replace(new URL(next, location.href));
}

// Go back to the previous answer, and withdraw its label or skip.
async function undo() {
  const answers = done();
  const last = answers.pop();
  if (!last || !(await said({ record_id: last, correct: null }))) return;
  keep(answers);
  const address = new URL(location.href);
  address.searchParams.delete("after");
  address.searchParams.set("record", last);
  location.replace(address);
}

document.addEventListener("page", () => {
  if (!$("undo")) return;
  const ended = !box().dataset.record;
  $("undo").disabled = done().length === 0;
  box().classList.toggle("ended", ended);
  box().hidden = ended && done().length === 0;
});

document.addEventListener("click", (event) => {
  const button = event.target.closest?.(".rating button, .rating [data-skip]");
  if (!button) return;
  if (button.id === "undo") undo();
  else if (button.dataset.skip) {
    event.preventDefault();
    skip();
  } else rate(JSON.parse(button.dataset.correct));
});
