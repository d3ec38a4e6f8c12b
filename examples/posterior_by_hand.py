"""The posterior in one flat file of plain transformers, without the library, training or labels.

Each view of the model's probabilities gives every candidate answer a number in nats. A softmax over the weighted sum of
the views gives probabilities:

    options   .8 s * letters under two orders  +  (.5 - s/3) * ln P of the option's text per token
    open      .3 s * letters under two orders  +  .4 * ln share of the samples  +  .4 * ln P of the text

Earlier questions give s, the reliability of the letters (0 to 1): how much letters depend on the options, not on their
places. If earlier questions had the same options, the sum becomes factor * (sum - most of the bias). The results
equal the library's. Numbers, sentences and the full rule for equal answers are left out.

    python examples/posterior_by_hand.py FOLDER "What is the capital of Peru?" [Quito Lima Bogota]
"""

from __future__ import annotations

import math
import random
import re
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

LETTER = "Answer with the letter of the correct option."
STATED = (
    " Then state how confident you are that your answer is correct, as a single digit from 0 to 9, where 0 means a "
    "0-10% chance of being correct and 9 means 90-100%.\nReply in exactly this format:\nAnswer: <letter>\n"
    "Confidence: <digit>"
)
SHORT = "Answer with a few words and no explanation."
Text = tuple[str, float]  # and its ln P


class PosteriorByHand:
    """A chat model; `past` holds letters of earlier questions, `shared` scores of questions with the same options."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer = model.eval(), tokenizer
        self.past: dict[tuple[bool, int], list[Tensor]] = {}
        self.shared: dict[tuple[str, ...], tuple[Tensor, Tensor, Tensor]] = {}

    def chat(self, user: str) -> str:
        how = {"tokenize": False, "add_generation_prompt": True, "enable_thinking": False, "date_string": "26 Jul 2024"}
        return str(self.tokenizer.apply_chat_template([{"role": "user", "content": user}], **how))

    def encode(self, text: str) -> list[int]:
        return [*self.tokenizer(text, add_special_tokens=False)["input_ids"]]

    @torch.no_grad()
    def log_p(self, ids: list[int]) -> Tensor:
        """Return ln P of every next token (length, vocabulary), in float32."""
        logits: Tensor = self.model(input_ids=torch.tensor([ids])).logits[0].float()
        return logits.log_softmax(-1)

    def text_log_p(self, prompt: str, text: str) -> tuple[float, int]:
        """Return ln P of `text` after a prompt, and its number of tokens."""
        ids, start = self.encode(prompt + text), len(self.encode(prompt))
        return self.log_p(ids)[range(start - 1, len(ids) - 1), ids[start:]].sum().item(), len(ids) - start

    def letters(self, question: str, options: Sequence[str], order: Sequence[int], instruction: str) -> Tensor:
        """Return ln P of each option's letter, with the options in an order, minus the mean."""
        shown = "".join(f"{chr(65 + place)}. {options[number]}\n" for place, number in enumerate(order))
        prompt = self.chat(f"Question: {question}\n{shown}\n{instruction}") + "Answer:"
        ids = [self.encode(f"{prompt} {chr(65 + place)}") for place in range(len(order))]
        log_p = self.log_p(ids[0][:-1])[-1, [each[-1] for each in ids]]
        return torch.empty(len(order)).scatter(0, torch.tensor(order), log_p - log_p.mean())

    def reliability(self, is_open: bool) -> float:
        """Return s, from the letters' correlation between two orders; the prior .5 has the weight of 20 questions."""
        both = own = questions = 0.0
        for past in (past for kind, past in self.past.items() if kind[0] is is_open and len(past) > 1):
            rest = torch.stack(past) - torch.stack(past).mean(0)
            both, own = both + rest.prod(1).sum().item(), own + rest.square().sum().item() / 2
            questions += len(past)
        r = max(0.0, (questions * both / own + 0.5 * 20) / (questions + 20)) if own else 0.5
        return 2 * r / (1 + r)  # reliability of the mean of two orders (Spearman-Brown)

    def mean_letters(self, asked: Sequence[Tensor], first: Sequence[int], is_open: bool) -> tuple[float, Tensor]:
        """Return s, and ln P of each letter minus its place's mean, averaged over two orders; `first` is one order."""
        past = self.past.setdefault((is_open, len(first)), [])
        s, by_place = self.reliability(is_open), torch.stack([letters[list(first)] for letters in asked])
        places = torch.stack([0 * by_place, *past]).sum(0) / (len(past) + 5)
        past.append(by_place)
        return s, torch.empty(len(first)).scatter(0, torch.tensor(first), (by_place - places).mean(0))

    def relative(self, options: Sequence[str], x: Tensor) -> Tensor:
        """Return factor * (score - most of the bias) of a question with the scores x; they join the earlier scores."""
        k, unit = len(x), (len(x) - 1) / len(x) ** 2
        scores, share, won = self.shared.get((*options,), (torch.empty(0, k), torch.ones(k) / k, torch.tensor(0.0)))
        n, kept, step = len(scores), len(scores) / (len(scores) + 4), (len(scores) + 10) ** -0.7
        mean, over = scores.sum(0) / max(n, 1), share - 1 / k
        most = (((scores - mean).square().sum() / k + 40 * 0.3) / (n + 40) / unit).sqrt()
        signal = ((won - kept * share @ mean) / (1 - 1 / k - kept * share @ over)).clamp(0 * most, most)
        bias = kept * (mean - signal * over)
        left = (scores - bias).square().sum() / k
        part = (n * (n * signal**2 * unit / left.clamp(1e-9)).clamp(max=0.95) + 40 * 0.3) / (n + 40)
        strength = (part / (left + 40 * 0.3) * (n + 40) / unit).sqrt() / (1 - part) * (k - 1) / k
        likely = (strength * (x - bias) + (n * share + 3).log()).softmax(0)
        self.shared[(*options,)] = torch.cat([scores, x[None]]), share.lerp(likely, step), won.lerp(likely @ x, step)
        return (1 + strength) / 2 * (x - (1 - 1 / k) * bias)

    def options(self, question: str, options: Sequence[str]) -> list[float]:
        """Return the probability of each option."""
        order = [*range(len(options))]
        shown = (order, LETTER + STATED), (other_order(order), LETTER)
        letters = [self.letters(question, options, *each) for each in shown]
        asked, bare = (self.chat(f"{before}\n{SHORT}") + "Answer:" for before in (f"Question: {question}\n", ""))
        given = [self.text_log_p(asked, f" {option}") for option in options]
        alone = [self.text_log_p(bare, f" {option}") for option in options]
        likelihood = [(g - a / 2) / tokens for (g, tokens), (a, _) in zip(given, alone, strict=True)]
        s, mean = self.mean_letters(letters, order, is_open=False)
        text, first = (0.5 - s / 3) * torch.tensor(likelihood), (*options,) not in self.shared
        relative = self.relative(options, 0.4 * s * (letters[0] + letters[1]) + text - text.mean())
        return (0.8 * s * mean + text if first else relative).softmax(-1).tolist()

    def open(self, question: str, own: Text, samples: Sequence[Text], first: Sequence[int] = ()) -> dict[str, float]:
        """Return the probabilities of the own answer, of up to three sampled answers, and of "None of these"."""
        counts = Counter(said(text) for text, _ in (own, *samples))
        texts = {said(text): (text, log_p) for text, log_p in (*reversed(samples), own)}  # of equal texts, the first
        keys = [said(own[0]), *[key for key, _ in counts.most_common() if key not in ("", said(own[0]))][:3]]
        kept, shares = [texts[key] for key in keys], [counts[key] for key in keys]
        share = torch.tensor([*shares, counts.total() - sum(shares)]).add(0.5).log()
        best = {said(text): (text, log_p) for text, log_p in sorted((own, *samples), key=lambda each: each[1])}
        score = [best[key][1] / math.sqrt(max(1, len(best[key][0].split()))) for key in keys]
        score.append(math.log(max(1 - sum(map(math.exp, score)), 0.05)))
        candidates = [*(text for text, _ in kept), "None of these"]
        first = first or [*random.sample(range(len(kept)), len(kept)), len(kept)]
        letters = [self.letters(question, candidates, order, LETTER) for order in (first, other_order(first))]
        s, mean = self.mean_letters(letters, first, is_open=True)
        probabilities = (0.3 * s * mean + 0.4 * share + 0.4 * torch.tensor(score)).softmax(-1)
        return dict(zip(candidates, probabilities.tolist(), strict=True))

    def write(self, question: str, **sampling: Any) -> Text:
        """Return a short answer with its ln P."""
        prompt = self.chat(f"Question: {question}\n\n{SHORT}")
        ids = torch.tensor([self.encode(prompt)])
        written = self.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, **sampling)[0]
        text = self.tokenizer.decode(written[ids.shape[1] :], skip_special_tokens=True).split("\n")[0].rstrip()
        return text, self.text_log_p(prompt, text)[0]


def other_order(order: Sequence[int]) -> list[int]:
    """Return the reversed order; of an odd number, the middle option moves up, so that its letter changes, too."""
    backwards, middle = [*order][::-1], len(order) // 2
    if len(order) % 2:
        backwards[middle - 1 : middle + 1] = backwards[middle], backwards[middle - 1]
    return backwards


def said(text: str) -> str:
    """Return a text without case, punctuation and articles."""
    return " ".join(re.sub(r"\b(the|an?)\b|[^\w\s]", " ", text.lower()).split())


if __name__ == "__main__":
    folder, question, *options = sys.argv[1:]
    hand = PosteriorByHand(AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder))
    torch.manual_seed(42)
    if options:
        shares = dict(zip(options, hand.options(question, options), strict=True))
    else:
        samples = [hand.write(question, do_sample=True, top_p=0.95, top_k=0) for _ in range(5)]
        shares = hand.open(question, hand.write(question, do_sample=False, top_p=None, temperature=None), samples)
    for text, probability in sorted(shares.items(), key=lambda pair: -pair[1]):
        print(f"{probability:.2f}  {text}")
