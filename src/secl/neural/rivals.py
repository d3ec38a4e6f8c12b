"""What DINCO asks: the most probable answers by beam search, each verified alone, all compared with each other."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import GenerationConfig

from secl.asking.parsing import read_answer, trim_answer
from secl.asking.prompts import verification_prompt
from secl.data.grading import answer_key
from secl.maths.dinco import SAMPLES
from secl.neural.entailment import Entailment
from secl.neural.generation import Draft, Generator
from secl.neural.network import Network
from secl.neural.reading import Reader, ends_of
from secl.neural.words import Words, render
from secl.records import Dinco, Question

BEAMS = 5


class Rivals:
    """Gathers the evidence of DINCO from the frozen model."""

    def __init__(
        self, words: Words, network: Network, reader: Reader, generator: Generator, entailment: Entailment
    ) -> None:
        self.words = words
        self.network = network
        self.reader = reader
        self.generator = generator
        self.entailment = entailment

    def beams(self, prompt: list[int], question: Question) -> tuple[list[str], float]:
        """Up to `BEAMS` different answers to an open question, the most probable first, and the tokens this took."""
        model, tokenizer = self.generator.model, self.generator.tokenizer
        limit = Draft.answer(prompt, question.form).limit
        ends = set(self.generator.ends)
        if question.form != "number":
            ends |= self.generator.breaks  # an answer is one line, so what follows makes no other answer
        settings = GenerationConfig(
            num_beams=BEAMS,
            num_return_sequences=BEAMS,
            length_penalty=0.0,
            do_sample=False,
            max_new_tokens=limit,
            eos_token_id=sorted(ends),
            pad_token_id=tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(ends),
        )
        tokens = torch.tensor([prompt], device=model.device)
        found = model.generate(tokens, attention_mask=torch.ones_like(tokens), generation_config=settings)
        written = found[:, len(prompt) :].tolist()
        answers: list[str] = []
        for row in written:
            text = self.generator.text(Draft(prompt, question.form, limit, written=row))
            answer = read_answer(trim_answer(text, question.form), question.form)
            if answer is not None:
                answers.append(answer)
        return _different(answers, question), len(prompt) + BEAMS * float(max(map(len, written)))

    @torch.no_grad()
    def compare(
        self,
        question: Question,
        answers: Sequence[str],
        beams: int,
        rated: Sequence[int],
        samples: Sequence[str | None],
    ) -> tuple[Dinco, float]:
        """Verify the answers and compare them with each other and with the samples.

        Args:
            question: that they answer.
            answers: as `Reply.answer` has them: beams first, then perhaps one more.
            beams: how many of them are beams.
            rated: places of those that may be reported; only they are compared with the samples.
            samples: more answers, of which the first `SAMPLES` count.

        Returns:
            the evidence, and the tokens that went through the answering model.
        """
        texts = [_text(question, answer) for answer in answers]
        prompts = [render(self.words.tokenizer, verification_prompt(question, text)) for text in texts]
        verified = self.network.run([self.words.before(prompt, "Yes") for prompt in prompts])
        p_yes = self.reader.p_yes(verified.frozen(ends_of(verified.trie)))
        samples = samples[:SAMPLES]
        others = [_text(question, sample) for sample in _different([s for s in samples if s is not None], question)]
        pairs = [(a, b) for a in texts for b in texts if a != b]
        pairs += [pair for i in rated for b in others if b not in texts for pair in ((texts[i], b), (b, texts[i]))]
        judged, tokens = self.entailment.judge(question, pairs)
        scores = dict(zip(pairs, judged, strict=True)) | {(text, text): (1.0, 0.0) for text in texts}
        keys = [answer_key(answer, question.form) for answer in answers]

        def agreement(i: int, sample: str | None) -> float:
            if sample is None:
                return 0.0
            if answer_key(sample, question.form) == keys[i]:
                return 1.0
            said = next(t for t in (*texts, *others) if _same(t, _text(question, sample), question))
            return (scores[texts[i], said][0] + scores[said, texts[i]][0]) / 2

        evidence = Dinco(
            candidates=tuple(texts),
            answers=tuple(answers),
            beams=beams,
            p_yes=p_yes,
            entails=tuple(tuple(scores[a, b][0] for b in texts) for a in texts),
            contradicts=tuple(tuple(scores[a, b][1] for b in texts) for a in texts),
            agreement=tuple(
                tuple(agreement(i, sample) for sample in samples) if i in rated else () for i in range(len(answers))
            ),
            judge=self.entailment.name,
        )
        return evidence, tokens + len(verified.trie.tokens)


def _text(question: Question, answer: str) -> str:
    return question.option(answer) if question.options else answer


def _same(one: str, other: str, question: Question) -> bool:
    form = "short" if question.options else question.form
    return answer_key(one, form) == answer_key(other, form)


def _different(answers: Sequence[str], question: Question) -> list[str]:
    """The answers without repetitions."""
    return list({answer_key(answer, question.form): answer for answer in reversed(answers)}.values())[::-1]
