"""Plain transformers: exp(ln P) of the greedy answer, and the share of ten samples that say the same.

Usage: PYTHON by_transformers.py MODEL ROWS OUT
"""

import json
import sys
import time
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder, rows, out = sys.argv[1:]
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
tokenizer = AutoTokenizer.from_pretrained(folder)
torch.manual_seed(0)


def write(prompt, **options):
    """Return the texts of replies, and the log-probability of the first."""
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    found = model.generate(
        **ids, **options, max_new_tokens=24, return_dict_in_generate=True, output_logits=True,
        pad_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    written = found.sequences[:, ids["input_ids"].shape[1] :]
    log_p = torch.stack([logits[0] for logits in found.logits]).float().log_softmax(-1)
    own = log_p.gather(1, written[0][: len(log_p), None]).sum().item()
    return tokenizer.batch_decode(written, skip_special_tokens=True), own


results = []
for row in map(json.loads, Path(rows).read_text().splitlines()):
    began = time.monotonic()
    (answer,), log_p = write(row["prompt"], do_sample=False)
    greedy = time.monotonic() - began
    samples, _ = write(row["prompt"], do_sample=True, temperature=1.0, top_k=0, num_return_sequences=10)
    seconds = {"probability": greedy, "ten samples": time.monotonic() - began}
    results.append({"id": row["id"], "answer": answer, "log_p": log_p, "samples": samples, "seconds": seconds})
Path(out).write_text("".join(json.dumps(result) + "\n" for result in results))
