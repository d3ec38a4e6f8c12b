// Rating: one answer after the other in a review, or the one of a record's page.
import { $, newerVisit, post, visit } from "./shell.js";

const done = []; // addresses of a review's answers, the latest last, and whether each was rated

const box = () => document.querySelector(".rating");
const inReview = () => Boolean($("undo"));

async function rate(correct) {
  const { record, drawn, next } = box().dataset;
  const body = { record_id: record, correct };
  if (drawn && correct !== null) body.drawn = true;
  const left = newerVisit();
  try {
    await post("v1/feedback", body);
  } catch (problem) {
    $("trouble").textContent = problem.message;
    return;
  }
  if (left()) return;
  if (inReview()) await go(next, true);
  else await visit(location.href, { replace: true });
}

// On to the next answer of a review.
async function go(next, rated) {
  done.push({ record: box().dataset.record, rated });
  await visit(new URL(next, location.href), { replace: true });
}

// Back to the answer before; what was said of it is taken back.
async function undo() {
  const last = done.pop();
  if (!last) return;
  const left = newerVisit();
  try {
    if (last.rated) await post("v1/feedback", { record_id: last.record, correct: null });
  } catch (problem) {
    done.push(last);
    $("trouble").textContent = problem.message;
    return;
  }
  if (left()) return;
  const address = new URL(location.href);
  address.searchParams.delete("after");
  address.searchParams.set("record", last.record);
  await visit(address, { replace: true });
}

document.addEventListener("page", () => {
  if (!inReview()) return;
  const ended = !box().dataset.record;
  $("undo").disabled = done.length === 0;
  box().classList.toggle("ended", ended);
  box().hidden = ended && done.length === 0;
});

document.addEventListener("click", (event) => {
  const button = event.target.closest?.(".rating button, .rating [data-skip]");
  if (!button) return;
  if (button.id === "undo") undo();
  else if (button.dataset.skip) {
    event.preventDefault();
    go(button.getAttribute("href"), false);
  } else rate(JSON.parse(button.dataset.correct));
}, { capture: true });
