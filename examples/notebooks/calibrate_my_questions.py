# %% [markdown]
# # Calibrate a model on my own questions
# Stated confidence beside the posterior's, on some questions about capitals. With right answers the last cell says
# which of the two may be believed; without them, leave `reference` out. Put your own in place of the quiz: `questions
# = secl.read_questions("mine.csv")`.

# %%
import secl

questions = secl.load_stream(["capitals"], 24)
calibrator = secl.Calibrator.load("smollm2", method="posterior")
records = secl.ask_all(calibrator, questions)
print(records)  # in a notebook `records` alone is a table, and records.to_frame() a data frame

# %%
for record in records[-5:]:
    print(
        f"{record.question.text:45} stated {record.reply.confidence:.2f}, posterior {record.confidence:.2f}; "
        f"best answer: {record.question.option(record.best_answer or '')}"
    )

# %%
for name in ("stated", "posterior", "posterior_best"):
    measured = records.summary().estimators[name]
    print(f"{name:15} Brier {measured.brier:.3f}  AUROC {measured.auroc:.2f}  accuracy {measured.accuracy:.0%}")
print(secl.assess(records).line)
