# %% [markdown]
# # Rate the answers of another model
# Answers come from an API, a data set or a person; a small local model says how probable each is among its rivals. It
# is this model's belief: one that knows less than the author of the answers rates by its own ignorance.

# %%
import secl

calibrator = secl.Calibrator.load("smollm2", method="posterior")
answers = [
    secl.GivenAnswer(secl.Question("What is the capital of Peru?"), "Lima", rivals=("Quito", "La Paz")),
    secl.GivenAnswer(secl.Question("What is the capital of Peru?"), "Quito", rivals=("Lima", "La Paz")),
    secl.GivenAnswer(secl.Question("What is the capital of Norway?"), "Oslo", rivals=("Bergen", "Stockholm")),
    secl.GivenAnswer(secl.Question("What is the capital of Norway?"), "Stockholm", rivals=("Oslo", "Bergen")),
]

# %%
rated = list(calibrator.score_many(answers))
for record in sorted(rated, key=lambda each: -each.confidence):
    print(f"{record.confidence:.2f}  {record.question.text}  {record.answer}")
