"""A route that rates an answer from elsewhere: OpenAI's messages, and the answer to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from secl.errors import RequestError
from secl.evaluation.json_values import defined
from secl.given import GivenAnswer
from secl.posterior.views import pmi_of
from secl.prompts.parsing import MAX_WORDS
from secl.question import Form
from secl.server.http.confidence import Secl, rated_secl
from secl.server.http.conversation import asked_in, make_question
from secl.server.http.routes_chat import ERROR_RESPONSES, accepted_header, check_model, public_name
from secl.server.http.schemas import Domain, Message, Text, Texts
from secl.server.http.settings import MAX_PROMPT_CHARS, HttpSettings
from secl.server.http.waiting import wait_for_answer
from secl.server.online.requests import Answer
from secl.server.online.service import Service


class ScoreRequest(BaseModel):
    """An answer to the last question of a conversation.

    `answer` may be left out where the last message is the assistant's: then that is the answer. With `options` it is an
    option's letter or text. `rivals` are other answers to an open question to compare it with; without any the model
    lists some. `form` is that of the answer: "short" up to twelve words and else "sentence" unless it is given.
    """

    model_config = ConfigDict(extra="forbid")
    model: str | None = None
    messages: list[Message]
    answer: Text | None = None
    options: Texts = []
    rivals: Annotated[list[Text], Field(max_length=20)] = []
    form: Form | None = None
    domain: Domain = "default"


class ScoreReply(BaseModel):
    """What the model thinks of the answer.

    answer: an option's letter, or the text. p_true: probability that the model calls it true when asked, in [0, 1].
    log_probability: natural logarithm of that of its words as this model's own. pmi: nats by which the question makes
    the answer more probable; null where it is compared with nothing. secl: as for the model's own answers; in it "own"
    stands for the given answer.
    """

    answer: str
    option_text: str | None
    p_true: float | None
    log_probability: float | None
    pmi: float | None
    secl: Secl


def score_router(service: Service, settings: HttpSettings) -> APIRouter:
    """/v1/score."""
    router = APIRouter(tags=["answers"], responses=ERROR_RESPONSES)
    name = settings.served_model_name or public_name(service.model.name)

    @router.post("/v1/score")
    async def score(body: ScoreRequest, request: Request, response: Response) -> ScoreReply:
        """Rate an answer that somebody else gave; nothing is learned from it."""
        if body.model is not None:
            check_model(body.model, name)
        result = await wait_for_answer(service, _given(body), request, settings.timeout)
        reply = score_reply(result)
        response.headers.update(accepted_header(reply.secl))
        return reply

    return router


def _given(body: ScoreRequest) -> GivenAnswer:
    """The answer to rate, with its question.

    Raises:
        RequestError: there is no answer, or question and answers are too long.
        QuestionError: the answer is empty, or none of the options.
    """
    messages, answer = body.messages, body.answer
    if answer is None:
        messages, answer = messages[:-1], _last_answer(messages)
    _check_length([answer, *body.rivals])
    form: Form = "short" if len(answer.split()) <= MAX_WORDS else "sentence"
    form = body.form or ("choice" if body.options else form)
    question = make_question(asked_in(messages), body.options, form, body.domain)
    return GivenAnswer(question, answer, tuple(body.rivals))


def _last_answer(messages: Sequence[Message]) -> str:
    """The text of the last message, which must be the assistant's."""
    if not messages or messages[-1].role != "assistant":
        message = "there is no answer to rate; give it as answer, or as the last message, from the assistant."
        raise RequestError(400, message, "no_answer", "answer")
    content = messages[-1].content
    return "\n".join(part.text or "" for part in content) if isinstance(content, list) else content or ""


def _check_length(texts: Sequence[str]) -> None:
    length = sum(map(len, texts))
    if length > MAX_PROMPT_CHARS:
        message = f"the answers have {length} characters, and this server reads at most {MAX_PROMPT_CHARS}; shorten."
        raise RequestError(413, message, "context_length_exceeded")


def score_reply(result: Answer) -> ScoreReply:
    """The reply to a request for a rating."""
    record = result.record
    question, reply, p_true = record.question, record.reply, record.evidence.p_true
    return ScoreReply(
        answer=reply.text,
        option_text=question.option(reply.text) if question.options else None,
        p_true=None if p_true is None else p_true.probabilities[0],
        log_probability=defined(reply.log_probability),
        pmi=defined(pmi_of(question, reply, record.evidence)),
        secl=rated_secl(result),
    )
