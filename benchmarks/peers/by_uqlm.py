"""UQLM 0.6: `WhiteBoxUQ` and `BlackBoxUQ` with the scorers that need no further model.

UQLM takes any LangChain chat model, but `ChatHuggingFace` reports no log-probabilities. `LocalChat` does.

Usage: PYTHON by_uqlm.py MODEL ROWS OUT
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from uqlm import BlackBoxUQ, WhiteBoxUQ


class LocalChat(BaseChatModel):
    """A chat model of plain transformers that reports the log-probability of each token, as OpenAI does."""

    network: Any
    tokenizer: Any
    temperature: float = 0.0
    logprobs: bool = True

    @property
    def _llm_type(self):
        return "local"

    def _generate(self, messages, stop=None, run_manager=None, **options):  # noqa: ARG002
        names = {"human": "user", "ai": "assistant"}
        chat = [{"role": names.get(each.type, each.type), "content": each.content} for each in messages]
        ids = self.tokenizer.apply_chat_template(
            chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        ids = {name: ids[name] for name in ("input_ids", "attention_mask")}
        drawn = {"do_sample": True, "temperature": self.temperature, "top_k": 0} if self.temperature else {}
        found = self.network.generate(
            **ids, **(drawn or {"do_sample": False}), max_new_tokens=24, return_dict_in_generate=True,
            output_logits=True, pad_token_id=self.tokenizer.eos_token_id,
        )  # fmt: skip
        written = found.sequences[0, ids["input_ids"].shape[1] :]
        log_p = torch.stack([logits[0] for logits in found.logits]).float().log_softmax(-1)
        content = [
            {"token": self.tokenizer.decode([token]), "logprob": log_p[place, token].item(), "top_logprobs": []}
            for place, token in enumerate(written)
        ]
        text = self.tokenizer.decode(written, skip_special_tokens=True)
        message = AIMessage(text, response_metadata={"logprobs": {"content": content}})
        return ChatResult(generations=[ChatGeneration(message=message)])


async def main(folder, rows, out):
    torch.manual_seed(0)
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    llm = LocalChat(network=network, tokenizer=tokenizer)
    rendered = tokenizer.apply_chat_template([{"role": "user", "content": "?"}], tokenize=False)
    system = rendered.split("system\n")[1].split("<|im_end|>")[0]  # so that the prompts equal those of the others
    lines = [json.loads(line) for line in Path(rows).read_text().splitlines()]
    results = {line["id"]: {"id": line["id"], "scores": {}, "seconds": {}} for line in lines}
    for scorers, name in ((["sequence_probability", "min_probability"], "probability"), (["p_true"], "p_true")):
        began = time.monotonic()
        rater = WhiteBoxUQ(llm=llm, system_prompt=system, scorers=scorers)
        found = await rater.generate_and_score([line["prompt"] for line in lines], show_progress_bars=False)
        for line, row in zip(lines, found.to_df().to_dict("records"), strict=True):
            result = results[line["id"]]
            result["answer"] = row["response"]
            result["scores"] |= {scorer: row[scorer] for scorer in scorers}
            result["seconds"][name] = (time.monotonic() - began) / len(lines)
    drawn = [line for line in lines if line["sampled"]]
    began = time.monotonic()
    agreement = BlackBoxUQ(llm=llm, system_prompt=system, scorers=["exact_match"], sampling_temperature=1.0)
    found = await agreement.generate_and_score(
        [line["prompt"] for line in drawn], num_responses=10, show_progress_bars=False
    )
    for line, row in zip(drawn, found.to_df().to_dict("records"), strict=True):
        results[line["id"]]["scores"]["ten samples"] = row["exact_match"]
        results[line["id"]]["seconds"]["ten samples"] = (time.monotonic() - began) / len(drawn)
    Path(out).write_text("".join(json.dumps(result) + "\n" for result in results.values()))


asyncio.run(main(*sys.argv[1:]))
