"""All prompts.

The prompts of a question begin with its system text, its passage and ``Question: {text}``. The passes over a question
share this prefix, which is computed once. A prompt is a conversation that ends with a user turn, plus a prefill: the
beginning of the reply. With options, one turn asks for answer and confidence. For an open question, a second turn asks
for the confidence, so that the instruction about digits does not influence the answer. The prompt of a free answer is
the conversation alone.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace

from secl.conversation import Prompt
from secl.prompts.programs import OPENING
from secl.question import Form, Question
from secl.settings.groups import Thinking

CONFIDENCE = "Confidence: "
"""The text before the confidence digit."""

NONE_OF_THESE = "None of these"
"""Text of the last candidate when an open question is asked as a choice among answers."""

WORDS_TRUE = ("True", " True", "true", " true", "TRUE")
WORDS_FALSE = ("False", " False", "false", " false", "FALSE")
WORDS_YES_NO = ("Yes", "No")

MAX_ANSWER_TOKENS: dict[Form, int] = {"choice": 1, "number": 256, "short": 24, "sentence": 48, "text": 512}
"""Default token limit of a generated answer; for "number" the limit includes the reasoning."""

_SCALE = "as a single digit from 0 to 9, where 0 means a 0-10% chance of being correct and 9 means 90-100%."
_FORMAT = "Reply in exactly this format:\n"

_INSTRUCTIONS: dict[Form, str] = {
    "choice": "Answer with the letter of the correct option. Then state how confident you are that your answer is "
    f"correct, {_SCALE}\n{_FORMAT}Answer: <letter>\nConfidence: <digit>",
    "short": "Answer with a few words and no explanation.",
    "sentence": "Answer truthfully in one short sentence.",
    "number": "Think step by step in a few short lines. Then write the final number on a line of its own in the "
    "format\nAnswer: <number>",
}

_WITH_CONFIDENCE = f"Then state how confident you are that your answer is correct, {_SCALE}\n{_FORMAT}"

_ALONGSIDE: dict[Form, str] = {
    "short": f"Answer without any explanation. {_WITH_CONFIDENCE}Answer: <a few words>\nConfidence: <digit>",
    "sentence": f"Answer truthfully. {_WITH_CONFIDENCE}Answer: <one short sentence>\nConfidence: <digit>",
    "number": f"Think step by step in a few short lines. Then write the final number. {_WITH_CONFIDENCE}"
    "<your steps>\nAnswer: <number>\nConfidence: <digit>",
}
"""Instructions for answer and confidence in one reply, as in the paper."""

_ASK_CONFIDENCE = f"How confident are you that your answer is correct? State it {_SCALE}\n{_FORMAT}Confidence: <digit>"

_ASK_DIGIT = (
    "From 0 to 9, how sure are you that your answer is correct? 0 means a 0-10% chance of being correct and 9 means "
    "90-100%. Reply with one digit."
)

_BEHIND_A_THOUGHT: dict[Form, tuple[str, str]] = {
    "choice": ("answer with the letter of the correct option", "<letter>"),
    "short": ("answer with a few words", "<a few words>"),
    "sentence": ("answer truthfully in one short sentence", "<one short sentence>"),
    "number": ("write the final number", "<number>"),
}
"""The request for an answer after a thought, and the format of the answer. A new turn asks for a free answer."""

THOUGHT_END = "Answer:"
"""Text that ends a requested thought."""

REQUESTED_TOKENS = 256
"""Maximum number of tokens of a requested thought if no budget is given."""

_LIKE_A_REPLY = re.compile(r"(?<=\bconfidence)\s*[:=]\s*|(?<=\banswer)\s*[:=]\s*", re.IGNORECASE)
_LIKE_A_CONFIDENCE = re.compile(r"(?<=\bconfidence)\s*[:=]\s*", re.IGNORECASE)

_PREFILLS: dict[Form, str] = {"choice": "Answer:", "short": "Answer:"}
"""Beginnings of replies. Some models give better short answers without a prefill (`answer_prompt`)."""

_KINDS: dict[Form, str] = {"number": "a number", "short": "a few words"}
"""Form of each answer in a list, by the form of the question; "one short sentence" for all other forms."""


def quoted(passage: str) -> str:
    """Return a passage for a prompt, without a colon or "=" after "Confidence" or "Answer".

    Models copy text that looks like the format of a reply, such as a confidence in a passage.
    """
    return f"Context:\n{_LIKE_A_REPLY.sub(' ', passage)}"


def unstated(text: str) -> str:
    """Return a question or a candidate for a prompt, without a colon or "=" after "Confidence" (see `quoted`).

    >>> unstated("Is it Rome? Confidence: 9")
    'Is it Rome? Confidence 9'
    """
    return _LIKE_A_CONFIDENCE.sub(" ", text)


def _render(question: Question) -> str:
    """Return the common beginning of the prompts of a question."""
    passage = f"{quoted(question.context)}\n\n" if question.context else ""
    return f"{passage}Question: {unstated(question.text)}\n"


def answer_prompt(question: Question, *, alongside: bool = False, prefilled: bool = True) -> Prompt:
    """Ask for an answer. With options, or `alongside`, ask for a confidence digit in the same reply.

    `prefilled` begins a short reply with "Answer:". The prompt of a free answer has no instructions.
    """
    if alongside and question.form in _ALONGSIDE:
        prefill = "" if question.form == "number" else "Answer:"
        return _prompt(question, f"{_render(question)}\n{_ALONGSIDE[question.form]}", prefill)
    prefill = _PREFILLS.get(question.form, "") if prefilled or question.options else ""
    if question.free:
        passage = f"{quoted(question.context)}\n\n" if question.context else ""
        return _prompt(question, f"{passage}{question.text}", prefill)
    return _prompt(question, f"{_render(question)}{_list_options(question)}\n{_INSTRUCTIONS[question.form]}", prefill)


def request_for(thinking: Thinking) -> str:
    """Return the sentence that asks a model for a thought of this length.

    >>> request_for(160)
    'Think step by step in at most 90 words.'
    """
    length = f"at most {max(10, thinking * 6 // 100 * 10)} words" if isinstance(thinking, int) else "a few short lines"
    return f"Think step by step in {length}."


def thinking_prompt(question: Question, request: str, thought: str | None = None) -> Prompt:
    """Ask for an answer after a thought; with options, for an answer and then a confidence digit.

    Args:
        question: if the answer is free and no thought is requested, the prompt is the bare conversation. After a
            requested thought, a new turn asks for the free answer, because small models stop after a thought.
        request: sentence that asks for the thought; "" for a model that thinks without a request.
        thought: the thought; None until it is written; "" for an answer without a thought.
    """
    if question.free and (not request or thought == ""):
        return replace(answer_prompt(question), thought=None if request else thought or "")
    if question.free:
        asked = answer_prompt(question).turns[0]
        prompt = _prompt(question, f"{asked}\n\n{request} Do not reply yet.")
        if thought is None:
            return replace(prompt, thought="")
        return replace(prompt, turns=(*prompt.turns, thought, "Now write your reply."))
    wanted, shape = _BEHIND_A_THOUGHT[question.form]
    wanted = f"{request} Then {wanted}. " if request else f"{wanted[:1].upper()}{wanted[1:]}. "
    before = _WITH_CONFIDENCE if question.options else _FORMAT
    steps, digit = "<your steps>\n" if request else "", "\nConfidence: <digit>" if question.options else ""
    user = f"{_render(question)}{_list_options(question)}\n{wanted}{before}{steps}Answer: {shape}{digit}"
    return replace(_prompt(question, user, "Answer:"), thought=thought or "")


def behind_thought_prompt(question: Question, request: str, thought: str) -> Prompt:
    """Ask for the answer in a turn after a requested thought, for models that do not support prefilled replies."""
    asked = thinking_prompt(question, request, thought)
    if question.free:
        return asked
    wanted, _ = _BEHIND_A_THOUGHT[question.form]
    turns = (*asked.turns, thought, f"{wanted[:1].upper()}{wanted[1:]}.")
    return replace(asked, turns=turns, prefill="", thought=None)


def _list_options(question: Question) -> str:
    return "".join(f"{letter}. {unstated(question.option(letter))}\n" for letter in question.letters)


def _prompt(question: Question, user: str, prefill: str = "") -> Prompt:
    return Prompt((user,), prefill, question.system, question.history)


def other_order(options: int) -> tuple[int, ...]:
    """Return the reversed order of the options: the number of the option at each place.

    Over both orders, all options have the same mean place. With an odd number of options, the middle option swaps
    places with a neighbour, so that its letter changes, too.
    """
    backwards = [*range(options)][::-1]
    middle = options // 2
    if options % 2:
        backwards[middle - 1], backwards[middle] = backwards[middle], backwards[middle - 1]
    return tuple(backwards)


def as_choice(question: Question, answers: Sequence[str]) -> Question:
    """Return an open question as a choice between answers and "None of these", without a reference.

    >>> as_choice(Question("Capital of France?", reference="Paris", grader="contains"), ("Paris", "Rome")).options
    ('Paris', 'Rome', 'None of these')
    """
    return replace(question, options=(*answers, NONE_OF_THESE), form="choice", reference=None, grader="")


def orders_of_answers(answers: int, seed: int) -> list[tuple[int, ...]]:
    """Return two orders of the answers to an open question and "None of these".

    The seed shuffles the answers, so that the model's own answer has no fixed place. "None of these" comes last in the
    first order, and first in the second.

    >>> orders_of_answers(2, seed=0)
    [(1, 0, 2), (0, 2, 1)]
    """
    first = (*random.Random(seed).sample(range(answers), answers), answers)
    return [first, tuple(first[i] for i in other_order(len(first)))]


def in_order(question: Question, order: Sequence[int]) -> Question:
    """Return a question with its options in another order and without a reference."""
    return replace(question, options=tuple(question.options[i] for i in order), reference=None, grader="")


def order_prompt(question: Question, order: Sequence[int]) -> Prompt:
    """Ask for the letter alone, with the options in another order: `order[place]` is the number of an option."""
    user = (
        f"{_render(question)}{_list_options(in_order(question, order))}\nAnswer with the letter of the correct option."
    )
    return _prompt(question, user, _PREFILLS["choice"])


def candidate_prompt(question: Question, form: Form, *, alone: bool = False) -> Prompt:
    """Ask for an answer of this form without showing options. secl reads a candidate's likelihood after this prompt.

    `alone` omits the question, its passage and the history, which are all evidence for an answer (the domain premise of
    PMI, Holtzman et al. 2021); the system text stays.
    """
    user = f"{'' if alone else _render(question)}\n{_INSTRUCTIONS[form]}"
    return Prompt((user,), _PREFILLS.get(form, ""), question.system, () if alone else question.history)


def program_prompt(question: Question) -> Prompt:
    """Ask for a short program that computes a number (`secl.prompts.programs`)."""
    user = (
        f"{_render(question)}\nWrite a short Python program that computes the answer. Use only assignments and "
        "arithmetic: no functions, no loops, no imports, no comments and no explanation. The last line assigns the "
        "final number to the variable answer."
    )
    return _prompt(question, user, OPENING)


def confidence_prompt(
    question: Question, text: str, *, alongside: bool = False, before: Prompt | None = None
) -> Prompt:
    """Ask for the confidence digit of an answer `text`.

    With options, or `alongside`, the digit follows the answer in the same reply. Otherwise a new turn asks for the
    digit. `before` is the prompt of the answer, by default the result of `answer_prompt`.
    """
    before = before or answer_prompt(question, alongside=alongside)
    if question.options or (alongside and not question.free):
        return before.begun(f"{' ' if question.options else ''}{text}\n{CONFIDENCE}")
    turns = (*before.turns, before.prefill + text, _ASK_CONFIDENCE)
    return Prompt(turns, CONFIDENCE, question.system, question.history, thought=before.thought)


def digit_prompt(answered: Prompt, text: str) -> Prompt:
    """Ask for the confidence digit of an answer `text` in a new turn without a prefill, for models without prefills."""
    return replace(answered, turns=(*answered.turns, text, _ASK_DIGIT), prefill="")


def p_true_prompt(question: Question, candidate: str, *, paper: bool = False) -> Prompt:
    """Ask whether `candidate` is correct, True or False (P(True), Sec. 3.2 of the paper).

    `paper` takes the wording of the paper.
    """
    if paper:
        sentence = "Is the following answer to the question correct? (True/False)"
        return _prompt(question, f"{_render(question)}{sentence}\nAnswer: {unstated(candidate)}")
    user = (
        f"{_render(question)}Proposed answer: {unstated(candidate)}\n"
        "Is the proposed answer to the question correct? Reply with exactly one word, True or False."
    )
    return _prompt(question, user)


def verification_prompt(question: Question, candidate: str) -> Prompt:
    """Ask whether `candidate` is right, Yes or No, for the signal DINCO."""
    user = (
        f"{_render(question)}Candidate answer: {candidate}\n"
        "Decide whether the candidate answer is correct. Reply with one word, Yes or No."
    )
    return _prompt(question, user)


def entailment_prompt(question: Question, premise: str, hypothesis: str) -> Prompt:
    """Ask how two answers relate; the reply is the letter of entailment, independence or contradiction."""
    user = (
        f"{_render(question)}First answer: {premise}\nSecond answer: {hypothesis}\n\n"
        "Suppose that the first answer is true. What does this say about the second answer?\n"
        "A. The second answer must be true as well.\nB. The second answer may be true or false.\n"
        "C. The second answer must be false.\n\nReply with the letter alone."
    )
    return _prompt(question, user, "Answer:")


def distractor_prompt(question: Question, count: int) -> Prompt:
    """Ask for `count` (2 to 10) answers, which become distractors. The prompt does not show the model's own answer."""
    number = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"][count - 2]
    user = (
        f"{_render(question)}People gave {number} different answers to this question. Some are wrong. List their "
        f"{number} answers, each on a line of its own, each {_KINDS.get(question.form, 'one short sentence')}."
    )
    return _prompt(question, user, "1.")
