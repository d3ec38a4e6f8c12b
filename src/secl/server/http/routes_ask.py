"""The plain route: one question, one answer."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from secl.errors import RequestError
from secl.server.http.conversation import Asked, make_question, turns_of
from secl.server.http.routes_chat import ERROR_RESPONSES, accepted_header, refusal_of, whole
from secl.server.http.schemas import AskReply, AskRequest, ask_reply
from secl.server.http.settings import HttpSettings
from secl.server.http.waiting import Texts, wait_for_answer
from secl.server.online.service import Service
from secl.writing import Writing


def ask_router(service: Service, settings: HttpSettings) -> APIRouter:
    """/v1/ask."""
    router = APIRouter(tags=["answers"], responses=ERROR_RESPONSES)

    @router.post("/v1/ask")
    async def ask(body: AskRequest, request: Request, response: Response) -> AskReply:
        """Answer one question."""
        if not body.question.strip():
            raise RequestError(400, "the question has no text; give it at least one word.", "bad_question", "question")
        refusal = refusal_of(service, settings, body.refuse, "refuse")
        asked = Asked(
            body.question.strip(),
            (body.context or "").strip(),
            (body.system or "").strip(),
            tuple(turns_of(body.history, "history")),
        )
        form = body.form or ("choice" if body.options else "short")
        question = make_question(asked, body.options, form, body.domain)
        if question.free:
            writing = Writing(max_tokens=settings.max_tokens, or_fewer=True)
            (answer,) = await whole(Texts(service, question, writing, settings.timeout), request)
        else:
            answer = await wait_for_answer(service, question, request, settings.timeout)
        reply = ask_reply(answer, refusal)
        response.headers.update(accepted_header(reply.secl))
        return reply

    return router
