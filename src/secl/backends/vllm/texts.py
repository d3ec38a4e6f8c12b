"""Free texts, as servers write them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from secl.backends.generation import TextRules
from secl.backends.text_stream import FreeText
from secl.backends.vllm.client import CompletionRequest, Step
from secl.backends.vllm.servers import Servers
from secl.errors import UnavailableError
from secl.writing import Piece, Token, Writing


def write_texts(servers: Servers, rules: TextRules, prompt: Sequence[int], writing: Writing) -> Iterator[Piece]:
    """Write texts behind a prompt with the base model, all of them by one server.

    What is drawn depends on the seed and on the server's own random numbers, which are not those of this machine.

    Args:
        servers: one of them writes.
        rules: tell the tokens that end a text.
        prompt: token ids.
        writing: how; `max_tokens` is given.

    Raises:
        UnavailableError: no server answers, or one broke off in the middle.
        ModelError: the request is refused.
    """
    drawn = writing.temperature > 0
    request = CompletionRequest(
        tokens=writing.max_tokens or 1,
        top=writing.top_logprobs or 0,
        stop=writing.stop,
        ends=tuple(sorted(rules.end_ids)),
        temperature=writing.temperature,
        top_p=writing.top_p,
        seed=writing.seed if drawn else None,
    )
    texts = [FreeText(rules, prompt, writing, number) for number in range(writing.n)]
    # Where nothing is drawn all texts are the same, and are written once.
    for number, steps, finish in servers.ask(lambda server: server.stream(prompt, request, writing.n if drawn else 1)):
        for text in [texts[number]] if drawn else texts:
            for step in steps:
                if not text.ended:
                    yield text.push(step.token, _report(text, step, writing.top_logprobs))
            if finish is not None and not text.ended:
                yield text.end("length" if finish == "length" else "stop")
    if not all(text.ended for text in texts):
        raise UnavailableError("a vLLM server broke off in the middle of a text; ask again.")


def _report(text: FreeText, step: Step, count: int | None) -> tuple[Token, ...]:
    if count is None:
        return ()
    best = sorted(step.log_p.items(), key=lambda item: -item[1])[:count]
    top = tuple((text.word(token), min(0.0, log_p)) for token, log_p in best)
    return (Token(text.word(step.token), min(0.0, step.log_p[step.token]), top),)
