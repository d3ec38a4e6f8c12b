# %% [markdown]
# # Accept or abstain, with twenty labels
# Forty answers, twenty of them rated by a person (here: by the right answers, which nothing else sees), and the
# threshold that is cheapest if a wrong answer costs as much as two people who look.

# %%
import secl
from secl.evaluation.acceptance import advise_on_cost, answers_of
from secl.labels.draw import review_queue
from secl.labels.relabel import relabelled
from secl.reports.acceptance_report import cost_sentence

questions = secl.load_stream(["capitals"], 40)
calibrator = secl.Calibrator.load("smollm2", method="posterior", loop=secl.LoopSettings(answer="best"))
records = secl.ask_all(calibrator, questions)

# %%
labels = [
    calibrator.label(record, secl.grade(record.question, record.answer)) for record in review_queue(records, 42)[:20]
]
print(f"{sum(bool(label.correct) for label in labels)} of {len(labels)} answers are right")
before = sum(record.confidence for record in records) / len(records)
after = sum(record.confidence for record in relabelled(records, labels, calibrator.labels)) / len(records)
print(f"mean confidence {before:.2f}, after the labels {after:.2f}")

# %%
advice = advise_on_cost(answers_of(records, labels, calibrator.labels), cost_wrong=2, cost_review=1)
print(cost_sentence(advice))
