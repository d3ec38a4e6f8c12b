"""Everything that is asked about a window of questions, under way at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from secl.backends.vllm.readout import FleetReader, FleetReply
from secl.backends.vllm.token_prompts import distinct_tokens
from secl.records import Question

Judging = tuple[tuple[float, ...] | None, list[str] | None, list[list[int]]]
"""P(True) of options or a list of answers, and the token ids that this took."""


@dataclass
class Prefetched:
    """What is known of a question.

    Attributes:
        question: as asked.
        frozen: reply of the frozen model, which never goes stale.
        tokens: that all but the adapted reply took.
        scoring: how many of these went into verdicts or the list.
        verdicts: P(True) of the options; None where they were not scored.
        listed: answers that a list named, for distractors; None where none was asked for.
        adapted: reply of an adapted version.
        times: how often the question is asked; the tokens are shared among them.
    """

    question: Question
    frozen: FleetReply
    tokens: float
    scoring: float = 0.0
    verdicts: tuple[float, ...] | None = None
    listed: list[str] | None = None
    adapted: FleetReply | None = None
    times: int = 1


class Asking:
    """Asks a fleet about many questions at a time.

    Args:
        reader: reads replies off the fleet.
        pool: runs the requests.
    """

    def __init__(self, reader: FleetReader, pool: Executor) -> None:
        self.reader = reader
        self.pool = pool

    def look(self, questions: Sequence[Question], scored: Sequence[bool], version: int) -> list[Prefetched]:
        """Frozen replies, what judges them where `scored`, and replies of `version` unless it is 0.

        Raises:
            ModelError: no endpoint answers.
        """
        submit = self.pool.submit
        frozen = [submit(self.reader.reply, question, 0) for question in questions]
        adapted = [submit(self.reader.reply, question, version) for question in questions if version]
        scoring = [submit(self._judging, question) for question, flag in zip(questions, scored, strict=True) if flag]
        looks = []
        for question, flag, coming in zip(questions, scored, frozen, strict=True):
            told = coming.result()
            look = Prefetched(question, told, told.tokens)
            if flag:
                look.verdicts, look.listed, sequences = scoring.pop(0).result()
                look.tokens = float(distinct_tokens([*told.sequences, *sequences]))
                look.scoring = look.tokens - told.tokens
            looks.append(look)
        for look, later in zip(looks, adapted, strict=False):
            look.adapted = later.result()
        return looks

    def _judging(self, question: Question) -> Judging:
        """What `judge` will need of the frozen model, as far as it does not depend on the answer."""
        if question.options:
            sequences = [self.reader.prompting.verdict(question, option) for option in question.options]
            return self.reader.p_true(sequences), None, sequences
        items, sequence = self.reader.listing(question)
        return None, items, [sequence]
