"""Abilities of a server. secl finds them out by a small trial question before the first real question."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product

from secl.backends.endpoint.client import Endpoint
from secl.backends.endpoint.names import DIGITS, bins_of, read_names
from secl.backends.endpoint.probabilities import MISSING, OTHER_TEXT, TOO_FEW, fault_of
from secl.backends.endpoint.reading import ReplyPart, read_reply
from secl.conversation import Message, Prompt
from secl.errors import ModelError, ParameterError, QuestionError
from secl.prompts.parsing import split_thought
from secl.prompts.templates import REQUESTED_TOKENS, digit_prompt, request_for
from secl.settings.groups import Thinking

TOPS = (20, 10, 5)
"""Numbers of most probable tokens to request; secl takes the first one that the server accepts."""

LIMITS = ("max_tokens", "max_completion_tokens")
"""Names of the request field that limits tokens."""

Switch = Mapping[str, object]
"""Fields of a request that switch thoughts on or off, or limit them."""

THOUGHTS_OFF: Sequence[Switch] = (
    {},
    {"chat_template_kwargs": {"enable_thinking": False, "thinking": False}},
    {"reasoning_effort": "none"},
)
"""Fields that switch thoughts off; secl tries the rows in order. vLLM, SGLang and llama.cpp pass chat_template_kwargs
to the chat template. Qwen and most other models know enable_thinking, DeepSeek and Granite know thinking. Ollama and
OpenAI accept reasoning_effort."""

ON: Sequence[Switch] = (
    {},
    {"chat_template_kwargs": {"enable_thinking": True, "thinking": True}},
    {"reasoning_effort": "medium"},
)
"""Fields that switch thoughts on; secl tries the rows in order."""

BUDGETS = ("thinking_token_budget", "thinking_budget_tokens", "reasoning_budget_tokens")
"""Names of the limit on a thought's tokens, in vLLM and llama.cpp; other servers ignore or refuse these names."""

GREEDY: Sequence[Switch] = ({"temperature": 0}, {"temperature": 1, "top_p": 1e-6})
"""Fields that let the model write its most probable tokens; secl takes the first row that shows probabilities before
temperature. Some servers show them after temperature, so that with temperature 0 each written token has probability 1.
"""

CLOSE = {"abs_tol": 0.5, "rel_tol": 0.25}
"""Difference of two reports of a log-probability that may be due to rounding in the server.

Log-probabilities of improbable tokens differ more.
"""

ROUTE = "/chat/completions"

WORD_TOKENS = 12
"""Token limit of a reply with a letter, a digit or a verdict, with room for words before it."""

MUSING_TOKENS = 400
"""Token limit of a trial reply that may contain a thought."""

TRIAL = digit_prompt(Prompt(("Question: What is 2 + 2?",)), "4")

TRIAL_TOKENS = 5
"""Number of the most probable tokens of the trial reply that secl keeps. Rounding rarely changes their order."""

ALL_DIGITS = 10
"""Number of log-probabilities per token that is enough to read all ten digits."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """Abilities of a server.

    Attributes:
        model: name of the model on the server.
        top: number of most probable tokens that the server reports.
        limit: name of the request field that limits tokens, one of `LIMITS`.
        off: fields that switch thoughts off; None if the model always thinks.
        on: fields that switch thoughts on; None if thoughts are off, or if secl asks for them by `request`.
        request: sentence that asks for a thought, if the model has no switch; else "".
        budget: maximum number of tokens of a thought; None for the server's own limit.
        unopened: whether the content begins with a thought that has an end mark but no opening mark.
        greedy: fields that let the model write its most probable tokens, a row of `GREEDY`.
        digit_mass: total probability of the ten digits in the reply to the trial question, which asks for a digit.
        trial: the most probable first tokens of this reply, in order; they differ between models of the same name.
    """

    model: str
    top: int
    limit: str
    off: Switch | None = field(default_factory=dict)
    on: Switch | None = None
    request: str = ""
    budget: int | None = None
    unopened: bool = False
    greedy: Switch = field(default_factory=lambda: GREEDY[0])
    digit_mass: float = 0.0
    trial: tuple[str, ...] = ()

    def thinks(self, think: bool) -> bool:
        """Return whether a reply begins with a thought; without `think`, only if the model always thinks."""
        return self.on is not None and (think or self.off is None)

    @property
    def tempered(self) -> bool:
        """Whether the server shows probabilities after temperature."""
        return self.greedy != GREEDY[0]

    @property
    def thinks_first(self) -> bool:
        """Whether a thought precedes each answer, in the same reply or in a reply to a separate request."""
        return self.thinks(True) or bool(self.request)

    def chat(self, prompt: Prompt, tokens: int | None = WORD_TOKENS, *, think: bool = False) -> dict[str, object]:
        """Return the body of a greedy request with log-probabilities; without `tokens`, the server's limit applies."""
        switch = self.off
        if self.thinks(think):
            switch = self.on
            tokens = None if tokens is None or self.budget is None else tokens + self.budget
        body = {
            **(switch or {}),
            "model": self.model,
            "messages": messages_of(prompt),
            **self.greedy,
            "logprobs": True,
            "top_logprobs": self.top,
        }
        return body if tokens is None else {**body, self.limit: tokens}

    @property
    def notes(self) -> list[str]:
        """Sentences about missing abilities."""
        notes = []
        if self.top < ALL_DIGITS:
            notes.append(
                f"this endpoint lists only {self.top} log-probabilities for a token, so secl reads the stated "
                f"confidence from the listed digits (their total probability in a trial reply: {self.digit_mass:.2f})"
            )
        if self.digit_mass < 0.5:
            notes.append(
                "in a trial, the model rarely replied with a digit when asked for its confidence (probability "
                f"{self.digit_mass:.2f}), so its stated confidence is unreliable; the posterior does not use it"
            )
        return notes


def messages_of(prompt: Prompt) -> list[dict[str, str]]:
    """Return a prompt as messages, without its prefill, which few servers accept."""
    before = [Message("system", prompt.system)] if prompt.system else []
    turns = [Message("assistant" if number % 2 else "user", text) for number, text in enumerate(prompt.turns)]
    return [{"role": turn.role, "content": turn.text} for turn in (*before, *prompt.history, *turns)]


def only_model(endpoint: Endpoint) -> str:
    """Return the name of a server's only model.

    Raises:
        ParameterError: the server has several models.
        ModelError: the server has no model, or does not answer.
    """
    names = [card["id"] for card in endpoint.models()]
    if not names:
        raise ModelError(f"{endpoint.url} lists no model; load a model on this server.")
    if len(names) > 1:
        raise ParameterError(f"{endpoint.url} has several models ({_listed(names)}); name one with --model.")
    return str(names[0])


def unlisted(endpoint: Endpoint, model: str) -> list[str]:
    """Return a note if a server does not list a model. Some servers accept every name."""
    with suppress(ModelError):  # some servers list no models
        names = [card["id"] for card in endpoint.models()]
        if model not in names:
            return [f"{endpoint.url} lists {_listed(names)}, but not {model!r}; another model may answer."]
    return []


def _listed(names: list[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")


def find_out(endpoint: Endpoint, model: str, thinking: Thinking = "off") -> Abilities:
    """Return the abilities of a server.

    Raises ModelError: no answer, no log-probabilities, log-probabilities of other tokens, or the model does not think
    as requested.
    """
    refusals: list[str] = []
    accepted: Abilities | None = None
    for off in THOUGHTS_OFF:
        for top, limit in product(TOPS, LIMITS):
            abilities = Abilities(model, top, limit, off)
            try:
                said = _ask_on_trial(endpoint, abilities)
            except QuestionError as refusal:
                refusals.append(str(refusal))
                continue
            accepted = abilities
            if said.spell().thought is not None:
                break
            abilities = _checked(endpoint, *_untempered(endpoint, abilities, said))
            return abilities if thinking == "off" else _let_think(endpoint, abilities, thinking)
    if accepted is None:
        said_last = " ".join(dict.fromkeys(refusals[-len(LIMITS) :]))
        raise ModelError(
            f"{model} refuses each request for log-probabilities, which confidences need; choose a server or a model "
            f"that gives them (the refusal: {said_last})."
        )
    if thinking == "off":
        raise ModelError(
            f"{model} thinks before it answers, and {endpoint.url} ignores the request to switch thoughts off "
            "(chat_template_kwargs, reasoning_effort); switch thoughts off at the server, or set thinking to auto."
        )
    return _let_think(endpoint, replace(accepted, off=None), thinking)


def _ask_on_trial(endpoint: Endpoint, abilities: Abilities) -> ReplyPart:
    """Return the reply to the trial question.

    If the token limit cuts the reply, and the reply begins without a digit, secl requests a longer
    reply: the model may have begun a thought without an opening mark, and the longer reply then contains the end mark.
    """
    said, _ = read_reply(endpoint.post(ROUTE, abilities.chat(TRIAL)), endpoint.url)
    if said.finish == "length" and said.spell().thought is None and said.text.strip()[:1] not in DIGITS:
        longer, _ = read_reply(endpoint.post(ROUTE, abilities.chat(TRIAL, MUSING_TOKENS)), endpoint.url)
        thought, _ = split_thought(longer.text, unopened=True)
        return replace(said, thought=thought)
    return said


def _let_think(endpoint: Endpoint, abilities: Abilities, thinking: Thinking) -> Abilities:
    """Return the abilities with the fields that switch thoughts on, or with the sentence that asks for a thought.

    Raises ModelError: no reply has a thought and log-probabilities, or the log-probabilities are of other tokens.
    """
    refusal = ""
    budget = thinking if isinstance(thinking, int) else None
    budgets: Sequence[Switch] = ({},) if budget is None else (dict.fromkeys(BUDGETS, budget), {})
    for switch, most in product([on for on in ON if on != abilities.off], budgets):
        on = {**switch, **most}
        trial = replace(abilities, on=on, budget=budget or MUSING_TOKENS)
        try:
            said, _ = read_reply(endpoint.post(ROUTE, trial.chat(TRIAL, think=True)), endpoint.url)
        except QuestionError as problem:
            refusal = f" (the last refusal: {problem})"
            continue
        if said.spell(thinking=True).thought is not None:
            unopened = said.thought is None and split_thought(said.text)[0] is None
            return replace(_checked(endpoint, trial, said), budget=budget, unopened=unopened)
    if abilities.off == {}:
        return replace(abilities, request=request_for(thinking), budget=budget or REQUESTED_TOKENS)
    raise ModelError(
        f"in a trial, {abilities.model} gave no reply with a thought and log-probabilities, which confidences need"
        f"{refusal}; set thinking to off."
    )


def _untempered(endpoint: Endpoint, abilities: Abilities, said: ReplyPart) -> tuple[Abilities, ReplyPart]:
    """Return the abilities with the first row of `GREEDY` that shows probabilities before temperature, and its reply.

    `said`: the reply to the trial question with the first row. Raises ModelError: each row shows other probabilities
    than a request with temperature 1.
    """
    with suppress(QuestionError):  # a server that refuses temperature 1 has nothing to compare with
        plain, _ = read_reply(endpoint.post(ROUTE, {**abilities.chat(TRIAL), "temperature": 1}), endpoint.url)
        for greedy in GREEDY:
            trial = replace(abilities, greedy=greedy)
            if greedy != abilities.greedy:
                said, _ = read_reply(endpoint.post(ROUTE, trial.chat(TRIAL)), endpoint.url)
            if _agree(said, plain):
                return trial, said
        raise ModelError(
            f"{endpoint.url} reports log-probabilities that depend on the temperature, so secl cannot read a "
            "confidence; let the server report log-probabilities before sampling, or choose another server."
        )
    return abilities, said


def _agree(one: ReplyPart, other: ReplyPart) -> bool:
    """Return whether two replies report the same probabilities of their first token, as far as both report any."""
    tops = [said.tokens[0].top if said.tokens else () for said in (one, other)]
    first, second = (dict(reversed(top)) for top in tops)
    close = all(math.isclose(first[text], second[text], **CLOSE) for text in {*first} & {*second})
    return close and fault_of(tops[0]) == fault_of(tops[1])


def _checked(endpoint: Endpoint, abilities: Abilities, said: ReplyPart) -> Abilities:
    """Return the abilities with `top` and `digit_mass` as the trial reply shows them.

    Raises ModelError: no log-probabilities, damaged ones, or log-probabilities of other tokens.
    """
    alone = said.spell(thinking=abilities.on is not None)
    if abilities.on is not None and not alone.text.strip():
        return abilities  # the thought took all tokens
    if alone.damage in (MISSING, TOO_FEW) or not said.listed:
        raise ModelError(
            f"{endpoint.url} answers without the log-probabilities of the most probable tokens, which confidences "
            "need; choose a server or a model that gives them."
        )
    if alone.damage == OTHER_TEXT:
        reported = "".join(token.text for token in said.tokens)
        raise ModelError(
            f"{endpoint.url} answers {alone.text!r}, but gives log-probabilities of the tokens of {reported!r}, "
            "so secl cannot read a confidence; choose another server, or another version of this server."
        )
    if alone.damage:
        raise ModelError(
            f"{endpoint.url} reports {alone.damage}, so secl cannot read a confidence; change the server's settings of "
            "log-probabilities, or choose another server."
        )
    # A server that merges tokens of equal text may list fewer tokens than requested. `ALL_DIGITS` tokens are enough to
    # read all digits, so only a shorter list lowers `top`.
    listed = max(len(token.top) for token in said.tokens)
    most = abilities.top if listed >= ALL_DIGITS else min(listed, abilities.top)
    digit = read_names(alone.tokens, DIGITS)
    mass = 0.0 if digit is None else bins_of(digit)[1]
    trial = tuple(text for token in alone.tokens[:1] for text, _ in token.top[:TRIAL_TOKENS])
    return replace(abilities, top=most, digit_mass=max(mass, abilities.digit_mass), trial=trial)
