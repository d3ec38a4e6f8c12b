"""The token sequences of all prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

from secl.backends.base import Bundle, Continuation
from secl.backends.chat_templates import ThinkingFormat
from secl.backends.generation import Generation
from secl.backends.token_ids import TokenIds, common_length
from secl.conversation import Prompt
from secl.errors import QuestionError, TooLongError
from secl.flow.further import list_tokens
from secl.prompts.parsing import as_written
from secl.prompts.templates import (
    MAX_ANSWER_TOKENS,
    answer_prompt,
    candidate_prompt,
    confidence_prompt,
    distractor_prompt,
    entailment_prompt,
    order_prompt,
    p_true_prompt,
    program_prompt,
    thinking_prompt,
    verification_prompt,
)
from secl.question import Form, Question
from secl.settings.groups import NUCLEUS
from secl.writing import SamplingParameters

BEHIND_A_THOUGHT = 160
"""Maximum number of tokens of an answer after a thought, including the question for the answer's confidence."""

MARGIN = 16
"""Tokens for parts that estimates of a prompt's length leave out: branches, verdicts, line breaks."""


class Prompting:
    """Builds the token sequences of prompts.

    Args:
        prefers_prefill: returns whether short replies begin with "Answer:". secl calls this function at most once.
        paper: whether all prompts follow the paper, which asks for an open answer and its confidence in one reply
            (docs/paper.md lists our choices). secl's own prompts ask for the confidence in a later turn.
        distractors: number of distractors of an open answer.
        thinking_format: how the model thinks before it answers; None if it answers at once.

    Attributes:
        thinks: whether the model thinks before it answers.
        top_p: nucleus (top-p) of samples.
        listed: number of answers to request in a list; one of them may be the judged answer.
    """

    def __init__(
        self,
        token_ids: TokenIds,
        prefers_prefill: Callable[[], bool] = lambda: True,
        *,
        paper: bool = False,
        distractors: int = 4,
        thinking_format: ThinkingFormat | None = None,
    ) -> None:
        self.token_ids = token_ids if thinking_format is None else replace(token_ids, thinking_format=thinking_format)
        self.thinks = thinking_format is not None
        self.thinking_format = thinking_format or ThinkingFormat(token_ids.tokenizer)
        self._prefers_prefill = prefers_prefill
        self.paper = paper
        self.top_p = 1.0 if paper else NUCLEUS
        self.distractors, self.listed = distractors, distractors + 1

    @cached_property
    def prefilled(self) -> bool:
        """Whether replies of the form "short" begin with "Answer:"; always true with the paper's prompts."""
        return self.paper or self._prefers_prefill()

    # In the methods below, `thought` is the text of the thought before the answer; None without a thought.

    def _answer(self, question: Question, thought: str | None = None) -> Prompt:
        if thought is not None and self.thinks:
            return thinking_prompt(question, self.thinking_format.request, thought)
        prefilled = question.form != "short" or self.prefilled
        return answer_prompt(question, alongside=self.paper, prefilled=prefilled)

    def thought(self, question: Question, limit: int) -> Generation:
        """Return an unwritten generation of the thought before an answer; the model can read `limit` tokens."""
        behind = BEHIND_A_THOUGHT + question.free * MAX_ANSWER_TOKENS["text"]
        return self.thought_before(thinking_prompt(question, self.thinking_format.request), limit - behind)

    def thought_before(self, prompt: Prompt, limit: int) -> Generation:
        """Return an unwritten generation of the thought before a reply to any prompt.

        Prompt and thought together have at most `limit` tokens. If the prompt leaves no room, the thought has one
        token.
        """
        thinking_format = self.thinking_format
        begun = self.token_ids.encode(self.token_ids.render(prompt, thinking=True))
        most = min(thinking_format.budget, max(1, limit - len(begun)))
        ends = self.token_ids.tokenizer.get_added_vocab().get(thinking_format.mark)
        if ends is None:
            return Generation(begun, "text", most, kept=True, stop=(thinking_format.mark,))
        return Generation(begun, "text", most, kept=True, ends=(ends,))

    def answer(self, question: Question, thought: str | None = None) -> list[int]:
        """Return the token ids of the prompt for an answer."""
        return self._encode(self._answer(question, thought))

    def start_answer(self, question: Question, thought: str | None = None) -> Generation:
        """Return the generation of a greedy answer to an open question."""
        prompt = self._answer(question, thought)
        # The reasoning is in the thought, so the answer is short, even if the question asks for a number.
        form: Form = "short" if thought is not None and question.form == "number" else question.form
        return Generation.answer(self._encode(prompt), form, prefilled=bool(prompt.prefill))

    def confidence(self, question: Question, text: str, thought: str | None = None) -> list[int]:
        """Return the token ids up to the confidence digit; `text` is an option letter or an open answer."""
        before = self._answer(question, thought)
        return self._encode_before(confidence_prompt(question, text, alongside=self.paper, before=before), "0")

    def write_given(self, question: Question, answer: str, *, behind_thought: bool = False) -> str:
        """Return a given open answer as the model would write it: after a thought if `behind_thought`, else at once."""
        if behind_thought:
            return f" {answer.strip()}" if self._answer(question, "").prefill else answer
        text = as_written(answer, question.form)
        return f" {text}" if self._answer(question).prefill else text

    def choices(self, question: Question, thought: str | None = None) -> Bundle:
        """Return a bundle with a branch for every option: the option's letter, and the prompt for its confidence.

        Positions are before the letter, and before the confidence digit of each option.
        """
        letter = len(self._encode_before(self._answer(question, thought), " A"))
        branches = [self.confidence(question, each, thought) for each in question.letters]
        digits = [(i, len(branch)) for i, branch in enumerate(branches)]
        return Bundle(branches, [(0, letter), *digits])

    def orders(self, question: Question, orders: Sequence[Sequence[int]]) -> list[list[int]]:
        """Return, for each order of the options, the token ids up to the letter."""
        return [self._encode_before(order_prompt(question, order), " A") for order in orders]

    def spans(self, question: Question, candidates: Sequence[str]) -> list[Continuation]:
        """Return the spans of all candidates after the question, then of all candidates without a question."""
        form: Form = "short" if question.form in ("choice", "number", "short") else "sentence"
        spans = []
        for alone in (False, True):
            prompt = candidate_prompt(question, form, alone=alone)
            before = self._encode(prompt)
            for candidate in candidates:
                sequence = self._encode(prompt.begun(f" {candidate}" if prompt.prefill else candidate))
                spans.append(Continuation(sequence, common_length(before, sequence)))
        return spans

    def span(self, question: Question, before: str, text: str, behind: str) -> Continuation:
        """Return the span of a text between two other texts in a reply; the last token may extend beyond the text."""
        prompt = self._answer(question)
        start, end, whole = (
            self._encode(prompt.begun(part)) for part in (before, before + text, before + text + behind)
        )
        last = common_length(end, whole)
        return Continuation(whole[: last + (last < len(end))], common_length(start, whole))

    def bundle_answer(
        self, question: Question, text: str, generation: Generation | None = None, thought: str | None = None
    ) -> Bundle:
        """Return a bundle of one sequence: an open answer, written or given, and the prompt for its confidence.

        Positions are before each token of the answer, after its last token, and before the digit.
        """
        sequence = self.confidence(question, text, thought)
        prompt = self._answer(question, thought)
        # The template may trim the answer, and the tokenizer may split the answer into other tokens than the model
        # wrote. So secl looks for the answer's first and last token in the whole sequence.
        start = common_length(self._encode(prompt), sequence)
        end = max(start, common_length(self._encode(prompt.begun(text)), sequence))
        positions = [(0, length) for length in (*range(start, end + 1), len(sequence))]
        return Bundle([sequence], positions, generation=generation)

    def verdicts(self, question: Question, candidates: Sequence[str]) -> list[list[int]]:
        """Return, for each candidate, the token ids up to True or False."""
        return [self._encode_before(p_true_prompt(question, each, paper=self.paper), "True") for each in candidates]

    def continuation(self, question: Question, begun: str) -> list[int]:
        """Return the token ids of the prompt for an answer, with the beginning of the answer."""
        return self._encode(self._answer(question).begun(begun))

    def program(self, question: Question) -> list[int]:
        """Return the token ids of the prompt for a program."""
        return self._encode(program_prompt(question))

    def answer_list(self, question: Question) -> list[int]:
        """Return the token ids of the prompt for a list of answers."""
        return self._encode(distractor_prompt(question, self.listed))

    def verification(self, question: Question, candidate: str) -> list[int]:
        """Return the token ids up to Yes or No."""
        return self._encode_before(verification_prompt(question, candidate), "Yes")

    def entailment(self, question: Question, premise: str, hypothesis: str) -> list[int]:
        """Return the token ids up to the letter that states how two answers relate."""
        return self._encode_before(entailment_prompt(question, premise, hypothesis), " A")

    def check_length(self, question: Question, limit: int, answer: str | None = None) -> None:
        """Check that each option has a letter, and that question and answer fit into `limit` tokens.

        Raises:
            QuestionError: too many options, or too many tokens.
        """
        letters = len(self.token_ids.letters)
        if len(question.options) > letters:
            raise QuestionError(
                f"{question.mention} has {len(question.options)} options, but this model has single tokens for only "
                f"{letters} letters; give fewer options."
            )
        if question.free and answer is not None:
            needed = len(self.confidence(question, self.write_given(question, answer))) + MARGIN
        else:
            prompts = [self.answer(question)]
            if not question.options:
                written = "" if answer is None else self.write_given(question, answer)
                prompts += [self.confidence(question, written), self.answer_list(question)]
            longest = max(map(len, prompts))
            needed = longest + max(MAX_ANSWER_TOKENS[question.form], list_tokens(question.form, self.listed)) + MARGIN
        thought, remedy = "", ""
        if self.thinks:
            thought, remedy = "thought and ", ", or lower prompts.thinking"
            needed = max(
                needed, len(self.thought(question, limit).prompt) + self.thinking_format.least + BEHIND_A_THOUGHT
            )
        if needed > limit:
            raise TooLongError(
                f"{question.mention} takes {needed} tokens with its {thought}answer, but the model can read {limit}; "
                f"shorten the question{remedy}."
            )

    def with_thought(
        self, question: Question, sampling: SamplingParameters, limit: int
    ) -> tuple[Generation, SamplingParameters]:
        """Return an unwritten generation of the thought before a free answer, and the answer's parameters.

        The token limits of thought and answer leave room for both.

        Raises:
            TooLongError: prompt, thought and answer are longer than the model can read.
        """
        thinking_format, generation = self.thinking_format, self.thought(question, limit)
        any_thought = "." if thinking_format.request else ""
        room = self.with_room(question, replace(sampling, max_tokens=None), limit, any_thought).max_tokens or 0
        wanted = sampling.max_tokens or room
        if sampling.or_fewer or sampling.max_tokens is None:
            # Leave the thought its budget, but at most half of the room, and at least `thinking_format.least` tokens.
            wanted = max(
                1, min(wanted, max(room - thinking_format.budget, min(room // 2, room - thinking_format.least)))
            )
        if room - wanted < thinking_format.least:
            raise TooLongError(
                f"the conversation takes {len(generation.prompt)} tokens, its thought {thinking_format.least} and its "
                f"answer {wanted}; with the request for the confidence, this exceeds the model's limit of {limit} "
                "tokens; shorten the conversation, lower prompts.thinking, or ask for fewer tokens."
            )
        generation.limit = min(thinking_format.budget, room - wanted)
        return generation, replace(sampling, max_tokens=wanted, or_fewer=True)

    def with_room(
        self, question: Question, sampling: SamplingParameters, limit: int, thought: str | None = None
    ) -> SamplingParameters:
        """Return a free answer's parameters with a token limit that leaves room for later prompts about the answer.

        Raises:
            TooLongError: too little room for the requested tokens.
        """
        listing = len(self.answer_list(question)) + list_tokens("text", self.listed)
        behind = max(len(self.confidence(question, "", thought)), listing)
        room = limit - behind - MARGIN
        least = 1 if sampling.or_fewer else sampling.max_tokens or 1
        if room < least:
            raise TooLongError(
                f"the conversation takes {len(self.answer(question))} of the {limit} tokens that the model can read; "
                f"besides the request for the confidence, {max(0, room)} remain, but the answer needs {least}; "
                "shorten the conversation, or ask for fewer tokens."
            )
        return replace(sampling, max_tokens=min(room, sampling.max_tokens or room))

    def _encode(self, prompt: Prompt) -> list[int]:
        return self.token_ids.encode(self.token_ids.render(prompt))

    def _encode_before(self, prompt: Prompt, word: str) -> list[int]:
        return self.token_ids.encode_before(self.token_ids.render(prompt), word)
