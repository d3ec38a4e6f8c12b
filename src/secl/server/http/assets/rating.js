// Buttons that rate an answer or a fact: on the review page, and on the page of a record.
import { $, post } from "./shell.js";

const DONE = "secl-rated"; // key in sessionStorage: ids of the answers of this review in the order shown

const whole = () => document.querySelector(".rating.whole");
const boxes = () => [...document.querySelectorAll(".rating[data-fact]")];
const rated = (box) => Boolean(box.querySelector('[aria-pressed="true"]'));
const done = () => JSON.parse(sessionStorage.getItem(DONE) ?? "[]");
const keep = (answers) => sessionStorage.setItem(DONE, JSON.stringify(answers));

// The box that keys act on: of the first fact without a label, else of the whole answer.
export const current = () => boxes().find((box) => !rated(box)) ?? boxes()[0] ?? whole();

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

async function send(box, correct, more = {}) {
  const { record, drawn, fact } = box.dataset;
  const body = { record_id: record, correct, ...more };
  if (drawn && correct !== null) body.drawn = true;
  if (fact) body.fact = Number(fact);
  if (!(await said(body))) return false;
  box.querySelectorAll("[aria-pressed]").forEach((button) => {
    button.setAttribute("aria-pressed", String(button.dataset.correct === String(correct)));
  });
  return true;
}

async function rate(box, correct) {
  if (await send(box, correct)) proceed();
}

// Rate all facts without a label as right.
async function rateRest() {
  for (const box of boxes().filter((each) => !rated(each))) if (!(await send(box, true))) return;
  proceed();
}

// Store that a person saw the answer, or the facts without a label, and gave no judgement.
async function skip() {
  const seen = boxes().length ? boxes().filter((box) => !rated(box)) : [whole()];
  for (const box of seen) if (!(await send(box, null, { skipped: true, drawn: true }))) return;
  go(whole().dataset.next);
}

// In a review, go on after the last fact. The page of a record shows its new state.
function proceed() {
  if (!$("undo")) location.reload();
  else if (boxes().every(rated)) go(whole().dataset.next);
  else show();
}

// Go to the next answer of a review.
function go(next) {
  keep([...done(), whole().dataset.record]);
  location.replace(new URL(next, location.href));
}

// Go back to the previous answer, and withdraw its labels or skips.
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

// Mark the fact that keys act on.
function show() {
  const row = current()?.closest(".fact-row");
  document.querySelectorAll(".fact-row.current").forEach((each) => each.classList.remove("current"));
  row?.classList.add("current");
  if ($("undo")) row?.scrollIntoView({ block: "nearest" });
}

document.addEventListener("page", () => {
  if (!whole()) return;
  show();
  if (!$("undo")) return;
  const ended = !whole().dataset.record;
  $("undo").disabled = done().length === 0;
  whole().classList.toggle("ended", ended);
  whole().hidden = ended && done().length === 0;
});

document.addEventListener("click", (event) => {
  const button = event.target.closest?.(".rating button, .rating [data-skip]");
  if (!button) return;
  if (button.id === "undo") undo();
  else if (button.dataset.rest) rateRest();
  else if (button.dataset.skip) {
    event.preventDefault();
    skip();
  } else {
    const box = button.closest(".rating");
    const again = box.dataset.fact && button.ariaPressed === "true"; // takes the label of a fact back
    rate(box, again ? null : JSON.parse(button.dataset.correct));
  }
});
