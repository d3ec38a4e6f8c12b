# %% [markdown]
# # Distil along a stream
# The paper's method as it runs: answer first, and in a burst let the frozen model's own signal train the stated
# confidence. No label is used; the right answers only measure it afterwards.

# %%
import secl

questions = secl.load_stream(["capitals", "misconceptions"], 16)
calibrator = secl.Calibrator.load("smollm2", gate=secl.EntropyShift(burst=12), answer_weights="adapted")
records = []
for record in calibrator.run(questions):
    records.append(record)
    if record.decision.alarm:
        print(f"question {record.position}: the gate fires, and a burst of {record.decision.remaining + 1} begins")

# %%
updates = [record.update for record in records if record.update is not None]
update = updates[-1]
print(f"{len(updates)} of {len(records)} questions taught something; the weights are at version {update.version}")
print(f"the latest lesson: {update.before:.2f} towards {update.target:.2f}, afterwards {update.after:.2f}")

# %%
for half, part in (("first half", records[:16]), ("second half", records[16:])):
    frozen = sum(record.frozen.confidence for record in part) / len(part)
    now = sum(record.reply.confidence for record in part) / len(part)
    right = sum(bool(record.correct) for record in part) / len(part)
    print(f"{half}: frozen model {frozen:.2f}, adapted {now:.2f}, right {right:.2f}")
