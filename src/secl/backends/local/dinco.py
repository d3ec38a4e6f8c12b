"""What DINCO asks: the most probable answers by beam search, each verified alone, all compared with each other."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from secl.backends.local.fast.shared_network import Network
from secl.backends.local.generation import Draft, Generator
from secl.backends.local.nli import Entailment
from secl.backends.local.readout import Reader, ends_of
from secl.backends.local.token_ids import TokenIds, render
from secl.data.grading import answer_key
from secl.metrics.dinco import COUNTED
from secl.prompts.parsing import read_answer, trim_answer
from secl.prompts.templates import verification_prompt
from secl.records import DincoEvidence, Form, Question

BEAMS = 5


class DincoProbe:
    """Gathers the evidence of DINCO from the frozen model."""

    def __init__(
        self, words: TokenIds, network: Network, reader: Reader, generator: Generator, entailment: Entailment
    ) -> None:
        self.words = words
        self.network = network
        self.reader = reader
        self.generator = generator
        self.entailment = entailment

    def beams(self, prompt: list[int], form: Form) -> tuple[list[str], float]:
        """Up to `BEAMS` different answers to an open question, the most probable first, and the tokens this took."""
        found, tokens = self.generator.beams(Draft.answer(prompt, form), BEAMS)
        texts = [trim_answer(self.generator.text(draft), form) for draft in found]
        answers = [answer for text in texts if (answer := read_answer(text, form)) is not None]
        return list(_by_key(answers, form).values()), tokens

    @torch.no_grad()
    def compare(
        self,
        question: Question,
        answers: Sequence[str],
        beams: int,
        rated: Sequence[int],
        samples: Sequence[str | None],
    ) -> tuple[DincoEvidence, float]:
        """Verify the answers and compare them with each other and with the samples.

        Args:
            question: that they answer.
            answers: as `Reply.answer` has them: beams first, then perhaps one more.
            beams: how many of them are beams.
            rated: places of those that may be reported; only they are compared with the samples.
            samples: more answers, of which the first `COUNTED` count.

        Returns:
            the evidence, and the tokens that went through the answering model.
        """
        texts = [_text(question, answer) for answer in answers]
        prompts = [render(self.words.tokenizer, verification_prompt(question, text)) for text in texts]
        verified = self.network.run([self.words.before(prompt, "Yes") for prompt in prompts])
        p_yes = self.reader.p_yes(verified.frozen(ends_of(verified.trie)))
        form = question.form
        said = [sample for sample in samples[:COUNTED] if sample is not None]
        # What counts as the same answer has the same text, that of a candidate if there is one.
        text_of = {key: _text(question, answer) for key, answer in _by_key([*answers, *said], form).items()}
        strangers = dict.fromkeys(text for text in text_of.values() if text not in texts)
        pairs = [(a, b) for a in texts for b in texts if a != b]
        pairs += [pair for i in rated for b in strangers for pair in ((texts[i], b), (b, texts[i]))]
        judged, tokens = self.entailment.classify(question, pairs)
        scores = dict(zip(pairs, judged, strict=True)) | {(text, text): (1.0, 0.0) for text in texts}

        def agreement(i: int, sample: str | None) -> float:
            if sample is None:
                return 0.0
            same = text_of[answer_key(sample, form)]
            return (scores[texts[i], same][0] + scores[same, texts[i]][0]) / 2

        evidence = DincoEvidence(
            candidates=tuple(texts),
            answers=tuple(answers),
            beams=beams,
            p_yes=p_yes,
            entails=tuple(tuple(scores[a, b][0] for b in texts) for a in texts),
            contradicts=tuple(tuple(scores[a, b][1] for b in texts) for a in texts),
            agreement=tuple(
                tuple(agreement(i, sample) for sample in samples[:COUNTED]) if i in rated else ()
                for i in range(len(answers))
            ),
            nli_name=self.entailment.name,
        )
        return evidence, tokens + len(verified.trie.tokens)


def _text(question: Question, answer: str) -> str:
    return question.option(answer) if question.options else answer


def _by_key(answers: Sequence[str], form: Form) -> dict[object, str]:
    """The answers without repetitions, the first of each, in order."""
    found: dict[object, str] = {}
    for answer in answers:
        found.setdefault(answer_key(answer, form), answer)
    return found
