# %% [markdown]
# # Reproduce a table of the paper
# The table of normalised P(True) over its temperature, on six questions of the built-in quiz, so that it takes a
# minute. Take the paper's benchmarks and 500 questions of each for the real thing; docs/reproduction.md has all of
# it.

# %%
from pathlib import Path

from secl_paper.reproduce import Reproduction, find
from secl_paper.setup import Setup

setup = Setup.of({"model": "smollm2", "benchmarks": ["capitals", "science"], "per_domain": 3})
reproduction = Reproduction.plan(find(["tau"]), setup, Path("runs/one-table"))
print("to be done:", [job.name for job in reproduction.missing])

# %%
for table in reproduction.fill():
    print(table.title)
    for line in table.lines:
        print(f"{line.name:30}", {name: round(value, 3) for name, value in line.ours.items() if value is not None})
    for note in table.notes:
        print("*", note)
