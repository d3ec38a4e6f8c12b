"""Further evidence about the latest answered question."""

from __future__ import annotations

from collections.abc import Sequence

from secl.backends.local.asking import dinco
from secl.backends.local.asking.answers import Answering
from secl.backends.local.asking.asker import Asker, shares
from secl.backends.local.asking.cases import Case
from secl.backends.local.asking.further import compared, sampled, sampled_letters
from secl.backends.local.writer import draw_many
from secl.backends.prompting import Prompting
from secl.evidence import CandidateEvidence, DincoEvidence, PTrue
from secl.ledger import Meter, Purpose
from secl.question import Question
from secl.records import Reply


class LatestEvidence:
    """The part of `secl.backends.local.model.LocalModel` that gathers further evidence by reusing the answer's pass."""

    asker: Asker
    answering: Answering
    prompting: Prompting
    meter: Meter
    _nli: dinco.NliModel | None
    _latest: Case | None

    def score_p_true(self, question: Question, reply: Reply) -> PTrue | None:
        """Return P(True) of the answer and its distractors from the frozen model; None without a readable answer."""
        if reply.answer is None:
            return None
        case = self._latest_case(question)
        known, listing = (None, None) if case is None else (case.p_true, case.listing)
        return self.asker.p_true(question, reply, known, listing)

    def compare_candidates(self, question: Question, reply: Reply) -> CandidateEvidence | None:
        """Return letters in further orders of the candidates, with the options' likelihoods or with further answers.

        None if the answer is unreadable or too long to be compared.
        """
        if reply.answer is None:
            return None
        case = self._latest_case(question)
        known = None if case is None else case.candidates
        if known is not None and (question.options or known.candidates[0] == reply.answer):
            return known
        if question.options and reply.thought is not None:
            case = Case(question, kinds=frozenset({"candidates"}))
            case = self.answering.prefetch([case], 0)[case.turn]
            for purpose in ("reordering", "likelihood"):
                self.meter.spend(purpose, case.spent[purpose])
            return case.candidates
        return compared(self.asker, question, reply.answer, reply.thought)

    def sample(self, question: Question, count: int) -> tuple[str | None, ...]:
        """Return further answers of the frozen model at temperature 1.

        Option letters are drawn from the distribution in the answer's pass. A model that thinks chooses letters after
        further thoughts. Draws depend only on question and seed, except on servers with other hardware.
        """
        if not question.options:
            return sampled(self.asker, question, count)
        if self.prompting.thinks:
            return sampled_letters(self.asker, question, count)
        p = self._option_shares(question, "sampling")
        drawn = draw_many(p, count, self.asker.seed_for(question, "samples"), self.prompting.top_p)
        return tuple(question.letters[number] for number in drawn)

    def dinco(self, question: Question, reply: Reply, samples: Sequence[str | None]) -> DincoEvidence | None:
        """Return the evidence of DINCO; for multiple choice, the beams are the options with the likeliest letters."""
        if question.options:
            p = self._option_shares(question, "comparing")
            answers = [question.letters[i] for i in sorted(range(len(p)), key=lambda i: -p[i])[: dinco.BEAMS]]
        else:
            answers = dinco.beam_answers(self.asker, question)
        return dinco.gather(self.asker, self._nli, question, answers, reply.answer, samples) if answers else None

    def _option_shares(self, question: Question, purpose: Purpose) -> tuple[float, ...]:
        """Return the frozen model's probabilities of the option letters."""
        case = self._latest_case(question)
        if case is None:
            case = Case(question)
            case = self.answering.prefetch([case], 0)[case.turn]
            self.meter.spend(purpose, case.spent["answering"])
        return shares(case.reply.option_log_p)

    def _latest_case(self, question: Question) -> Case | None:
        return self._latest if self._latest is not None and self._latest.question == question else None
