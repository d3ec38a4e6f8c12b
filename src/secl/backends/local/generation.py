"""Writing text in batches: greedy answers, and distractors for open questions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from secl.prompts.distractors import COUNT, distinct, near_numbers
from secl.prompts.parsing import is_complete, read_answer, read_list, trim_answer
from secl.prompts.templates import MAX_ANSWER_TOKENS
from secl.records import Form, Question

MAX_LIST_TOKENS: dict[Form, int] = {"choice": 1, "number": 40, "short": 56, "sentence": 140}
LISTED = COUNT + 1
"""Answers that a list is asked for: one of them may be the answer itself."""

SAMPLED_LISTS = 2
TOP_P = 0.95
NUCLEUS = 1024
"""Most probable tokens that are looked at first; sorting a whole vocabulary for every token takes longer."""

REMEMBERED = 1024
"""Batches whose texts are kept, the first ones: streams are asked from the start again."""

CONTEXT = 4
"""Tokens of the prompt that are decoded together with what follows them."""


@dataclass
class Draft:
    """A text in the making.

    Attributes:
        prompt: token ids that it continues.
        form: of the answer, or of the answers in a list.
        limit: most tokens that it may have.
        lines: a list is finished with this many lines; None for an answer, which is finished when it is complete.
        written: token ids written so far.
        seed: of its random choices; None writes greedily.
        tokens: of prompt and text that have gone through the network.
    """

    prompt: list[int]
    form: Form
    limit: int
    lines: int | None = None
    written: list[int] = field(default_factory=list)
    seed: int | None = None
    tokens: float = 0.0

    @classmethod
    def answer(cls, prompt: list[int], form: Form, begun: Sequence[int] = (), seed: int | None = None) -> Draft:
        """An answer that may have been begun."""
        return cls(prompt, form, MAX_ANSWER_TOKENS[form], written=list(begun), seed=seed)

    @classmethod
    def list(cls, prompt: list[int], form: Form, seed: int | None = None) -> Draft:
        """A list of answers."""
        return cls(prompt, form, MAX_LIST_TOKENS[form], lines=LISTED, seed=seed)


class Generator:
    """Generates with a model, many texts at a time.

    Args:
        model: a transformers causal language model.
        tokenizer: of the model.
        seed: of everything that is drawn.
        written: what the frozen model wrote before, to be shared by all that share its weights.
    """

    def __init__(self, model: Any, tokenizer: Any, seed: int, written: dict[bytes, Any] | None = None) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.seed = seed
        self.written: dict[bytes, list[tuple[list[int], float]]] = {} if written is None else written
        ends = model.generation_config.eos_token_id
        known = ends if isinstance(ends, list) else [ends]
        self.ends = {end for end in (*known, tokenizer.eos_token_id) if end is not None}

    def text(self, draft: Draft) -> str:
        """What is written of a draft so far."""
        # Some decoders drop the space at the start of what they are given, so a little of the prompt goes along.
        context = draft.prompt[-CONTEXT:]
        before = str(self.tokenizer.decode(context, skip_special_tokens=True))
        whole = str(self.tokenizer.decode([*context, *draft.written], skip_special_tokens=True))
        return whole.removeprefix(before)

    def items(self, draft: Draft) -> list[str]:
        """The items of a list; the last line of one that ran into its token limit is cut off."""
        text = self.text(draft)
        lines = text.splitlines()[:LISTED]
        complete = lines[:-1] if 1 < len(lines) < LISTED and not text.endswith("\n") else lines
        return read_list("\n".join(complete), draft.form)

    def distractors(
        self, prompt: list[int], question: Question, answer: str, listed: list[str]
    ) -> tuple[list[str], str, float]:
        """Plausible answers that differ from `answer`, where they come from, and the tokens that this took.

        What a greedy list (`listed`) lacks comes from near misses, for numbers, or from sampled lists. There may be
        fewer than `COUNT` when a model has no more to say. The source reads like "listed:2+sampled:1+numeric:1".
        """
        tokens = 0.0
        kept = distinct(answer, listed, question.form)
        counts = {"listed": len(kept)}
        if question.form == "number":
            kept = distinct(answer, [*kept, *near_numbers(answer)], question.form)
            counts["numeric"] = len(kept) - counts["listed"]
        for attempt in range(SAMPLED_LISTS):
            if len(kept) == COUNT:
                break
            draft = Draft.list(prompt, question.form, seed=self.seed_for(question, attempt))
            self.write([draft])
            tokens += draft.tokens
            kept = distinct(answer, [*kept, *self.items(draft)], question.form)
        counts["sampled"] = len(kept) - sum(counts.values())
        return kept, "+".join(f"{name}:{count}" for name, count in counts.items() if count) or "none", tokens

    def seed_for(self, question: Question, purpose: object) -> int:
        """A seed that depends on the question alone, so that a resumed run draws what an uninterrupted one drew."""
        digest = hashlib.sha256(f"{self.seed}/{purpose}/{question.id}/{question.text}".encode()).digest()
        return int.from_bytes(digest[:7], "big")

    def samples(self, prompt: list[int], question: Question, count: int) -> tuple[list[str | None], float]:
        """`count` answers to an open question at temperature 1, and the tokens that they took."""
        drafts = [
            Draft.answer(prompt, question.form, seed=self.seed_for(question, f"sample {i}")) for i in range(count)
        ]
        self.write(drafts)
        texts = [trim_answer(self.text(draft), question.form) for draft in drafts]
        return [read_answer(text, question.form) for text in texts], sum(draft.tokens for draft in drafts)

    def draw_options(self, shares: Sequence[float], question: Question, count: int) -> list[int]:
        """`count` options drawn like samples of an open answer, from the probabilities of their letters."""
        chance = torch.Generator().manual_seed(self.seed_for(question, "samples"))
        chances = torch.rand(count, generator=chance).tolist()
        return _draw(torch.tensor([shares] * count).log(), chances)

    @torch.no_grad()
    def beams(self, draft: Draft, count: int) -> tuple[list[Draft], float]:
        """Beam search for the `count` most probable texts (sum of log-probabilities, no length penalty), best first.

        Texts end as greedy ones do. The search is over when no unfinished text can still come among them.

        Returns:
            the texts, and the tokens that went through the network.
        """
        batch = _Batch.of(self.model, [draft.prompt])
        tokens = float(len(draft.prompt))
        going, finished = [(0.0, draft)], list[tuple[float, Draft]]()
        while going:
            scores = torch.tensor([score for score, _ in going], device=batch.logits.device)
            reached = scores[:, None] + batch.logits.log_softmax(-1)
            values, places = reached.flatten().topk(2 * count)
            found: list[tuple[float, Draft]] = []
            rows: list[int] = []
            for value, place in zip(values.tolist(), places.tolist(), strict=True):
                row, token = divmod(place, reached.shape[1])
                longer = replace(going[row][1], written=[*going[row][1].written, token])
                if self.ended(longer):
                    finished.append((value, longer))
                elif len(found) < count:
                    found.append((value, longer))
                    rows.append(row)
            finished = sorted(finished, key=lambda each: -each[0])[:count]
            if not found or (len(finished) == count and finished[-1][0] >= found[0][0]):
                break
            going = found
            batch.step(rows, [each.written[-1] for _, each in going])
            tokens += len(going)
        return [each for _, each in finished], tokens

    @torch.no_grad()
    def write(self, drafts: Sequence[Draft], *, frozen: bool = True) -> None:
        """Finish the drafts as one batch; a finished one leaves it, so that no step is spent on it.

        The frozen model writes the same greedy texts whenever it is given the same batch, so it is asked once.
        """
        if not frozen or any(draft.seed is not None for draft in drafts):
            self._write(drafts)
            return
        given = repr([(d.prompt, d.written, d.form, d.limit, d.lines) for d in drafts])
        batch = hashlib.sha256(given.encode()).digest()
        if batch not in self.written:
            before = [draft.tokens for draft in drafts]
            self._write(drafts)
            spent = [draft.tokens - tokens for draft, tokens in zip(drafts, before, strict=True)]
            if len(self.written) < REMEMBERED:
                self.written[batch] = [(list(d.written), tokens) for d, tokens in zip(drafts, spent, strict=True)]
            return
        for draft, (written, tokens) in zip(drafts, self.written[batch], strict=True):
            draft.written = list(written)
            draft.tokens += tokens

    def _write(self, drafts: Sequence[Draft]) -> None:
        going = [draft for draft in drafts if not self.ended(draft)]
        if not going:
            return
        randomness = {id(draft): torch.Generator().manual_seed(draft.seed) for draft in going if draft.seed is not None}
        batch = _Batch.of(self.model, [[*draft.prompt, *draft.written] for draft in going])
        for draft in going:
            draft.tokens += (len(draft.prompt) + len(draft.written)) / batch.shared
        while True:
            chosen = batch.logits.argmax(-1).tolist()
            drawn = [row for row, draft in enumerate(going) if id(draft) in randomness]
            if drawn:
                chances = [torch.rand(1, generator=randomness[id(going[row])]).item() for row in drawn]
                for row, token in zip(drawn, _draw(batch.logits[drawn], chances), strict=True):
                    chosen[row] = token
            for row, draft in enumerate(going):
                draft.written.append(chosen[row])
            rows = [row for row, draft in enumerate(going) if not self.ended(draft)]
            if not rows:
                return
            going = [going[row] for row in rows]
            batch.step(rows, [draft.written[-1] for draft in going])
            for draft in going:
                draft.tokens += 1

    def ended(self, draft: Draft) -> bool:
        """Whether a draft is finished."""
        if len(draft.written) >= draft.limit or (draft.written and draft.written[-1] in self.ends):
            return True
        text = self.text(draft)
        return is_complete(text, draft.form) if draft.lines is None else text.count("\n") >= draft.lines


class _Batch:
    """Rows of tokens with their key/value cache, padded on the left so that all end together.

    Attributes:
        shared: how many rows went through the network as one, because all are the same.
        logits: (rows, vocabulary) of the next token.
    """

    def __init__(self, model: Any, cache: Any, mask: Tensor) -> None:
        self.model = model
        self.cache = cache
        self.mask = mask
        self.shared = 1
        self.logits: Tensor

    @classmethod
    def of(cls, model: Any, rows: list[list[int]]) -> _Batch:
        copies = len(rows)
        alike = copies > 1 and all(row == rows[0] for row in rows)
        if alike:
            batch = cls.of(model, rows[:1])
            batch.cache.batch_repeat_interleave(copies)
            batch.mask, batch.logits = batch.mask.repeat(copies, 1), batch.logits.repeat(copies, 1)
            batch.shared = copies
            return batch
        longest = max(map(len, rows))
        tokens = torch.tensor([[0] * (longest - len(row)) + row for row in rows], device=model.device)
        mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows], device=model.device)
        batch = cls(model, DynamicCache(config=model.config), mask)
        batch._forward(tokens, (mask.cumsum(-1) - 1).clamp(min=0))
        return batch

    def step(self, keep: list[int], tokens: list[int]) -> None:
        """Go on with the rows `keep`, which may repeat, each one token longer."""
        if keep != list(range(len(self.mask))):
            rows = torch.tensor(keep, device=self.mask.device)
            self.cache.batch_select_indices(rows)
            self.mask = self.mask[rows]
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(keep), 1)], dim=1)
        self._forward(torch.tensor(tokens, device=self.mask.device)[:, None], self.mask.sum(-1, keepdim=True) - 1)

    def _forward(self, tokens: Tensor, positions: Tensor) -> None:
        out = self.model(
            input_ids=tokens,
            attention_mask=self.mask,
            position_ids=positions,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        self.logits = out.logits[:, -1].float()


def _draw(logits: Tensor, chances: Sequence[float]) -> list[int]:
    """A token for each row (rows, vocabulary) from its nucleus, by a number in [0, 1) each."""
    shares = logits.softmax(-1)
    kept, order = shares.topk(min(NUCLEUS, shares.shape[-1]))
    if not bool((kept.sum(-1) >= TOP_P).all()):
        kept, order = shares.sort(-1, descending=True)
    reached = kept.cumsum(-1)
    kept = kept * (reached - kept < TOP_P)
    reached = kept.cumsum(-1)
    aimed = torch.tensor(chances, device=reached.device, dtype=reached.dtype)[:, None] * reached[:, -1:]
    places = (reached <= aimed).sum(-1, keepdim=True).clamp(max=reached.shape[-1] - 1)
    return [int(token) for token in order.gather(-1, places)[:, 0]]
