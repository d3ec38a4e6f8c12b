"""`secl serve` in front of llama.cpp's server with the embedded model: `make test-llamacpp LLAMA=PYTHON`."""

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from secl.backends.local.loading.loader import locate
from secl.data.benchmarks import quiz
from tests.backends.conftest import Say
from tests.backends.endpoint.real import free_port, running

READY_SECONDS = 120

NATIVE = """
import sys, time, xllamacpp
parameters = xllamacpp.CommonParams()
parameters.model.path, parameters.model_alias = sys.argv[1], {"smollm2"}
parameters.hostnames, parameters.port, parameters.n_ctx = ["127.0.0.1"], int(sys.argv[2]), 2048
parameters.cpuparams.n_threads = 1
server = xllamacpp.Server(parameters)
while True:
    time.sleep(1)
"""
"""llama.cpp's own server, from the package xllamacpp."""

CONVERSATIONS: list[list[Any]] = [
    [{"role": "user", "content": "Write one sentence about the sea."}],
    [{"role": "system", "content": "You are a pirate."}, {"role": "user", "content": "Who are you?"}],
    [
        {"role": "user", "content": "What is the capital of France?"},
        {"role": "assistant", "content": "Paris."},
        {"role": "user", "content": "And what is it famous for?"},
    ],
]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of llama.cpp's server."""
    port = free_port()
    arguments = f"--host 127.0.0.1 --port {port} --n_ctx 2048 --logits_all true --model_alias smollm2 --verbose false "
    arguments += "--interrupt_requests false"  # otherwise a further request ends a running stream
    python, model = os.environ["SECL_LLAMA"], str(locate("smollm2"))
    command = [python, "-m", "llama_cpp.server", "--model", model, *arguments.split()]
    if subprocess.run([python, "-c", "import llama_cpp.server"], capture_output=True, check=False).returncode:
        command = [python, "-c", NATIVE, model, str(port)]
    log, url = tmp_path_factory.mktemp("llama") / "log", f"http://127.0.0.1:{port}"
    with running(command, f"{url}/v1/models", log, READY_SECONDS):
        yield url


@contextmanager
def serving(llama: str, state: Path) -> Iterator[str]:
    """The address of `secl serve` in front of llama.cpp, on a state folder."""
    port, log = free_port(), state.with_suffix(".log")
    arguments = f"serve {state} --engine openai --endpoint {llama} --port {port} --timeout 600"
    command, url = [sys.executable, "-c", "from secl.cli import main; main()"], f"http://127.0.0.1:{port}"
    with running([*command, *arguments.split()], f"{url}/readyz", log, READY_SECONDS) as process:
        yield url
    assert process.returncode == 0, log.read_text()


def written(client: openai.OpenAI, llama: str, messages: list[Any], **parameters: Any) -> tuple[str, str | None, Any]:
    """Text, reason of the end and usage of a greedy answer.

    llama.cpp rounds otherwise where it has the beginning of a prompt from the request before, so that the same request
    has another answer now and then; before each comes the same one here.
    """
    with openai.OpenAI(base_url=f"{llama}/v1", api_key="none") as direct:
        direct.chat.completions.create(model="smollm2", messages=[{"role": "user", "content": "."}], max_tokens=1)
    completion: Any = client.chat.completions.create(
        model="smollm2", messages=messages, **{"temperature": 0, "max_tokens": 24, **parameters}
    )
    if not parameters.get("stream"):
        choice = completion.choices[0]
        usage = completion.usage
        return choice.message.content, choice.finish_reason, (usage.prompt_tokens, usage.completion_tokens)
    text, finish = "", None
    for chunk in completion:
        for choice in chunk.choices:
            text, finish = text + (choice.delta.content or ""), choice.finish_reason or finish
    return text, finish, None


def test_the_text_is_the_same_before_and_after(llama: str, tmp_path: Path, say: Say) -> None:
    with serving(llama, tmp_path / "state") as url:
        before, after = (openai.OpenAI(base_url=f"{each}/v1", api_key="none", max_retries=0) for each in (llama, url))
        with before, after:
            for parameters in ({}, {"stop": ["."]}, {"max_tokens": 3}, {"stream": True}):
                for messages in CONVERSATIONS:
                    expected, found = (written(each, llama, messages, **parameters) for each in (before, after))
                    assert found == expected
                    say(f"{parameters or ''} {found[0]!r}")
            with pytest.raises(openai.BadRequestError, match="2048 tokens"):
                written(after, llama, [{"role": "user", "content": "word " * 3000}])


def test_feedback_moves_confidences_and_a_restart_keeps_that(llama: str, tmp_path: Path, say: Say) -> None:
    questions = quiz("capitals", 24, 1)

    def ask(client: httpx.Client, number: int) -> Any:
        question = questions[number]
        answer = client.post(
            "/v1/ask", json={"question": question.text, "options": list(question.options), "detail": "full"}
        )
        answer.raise_for_status()
        return answer.json()

    def connected(url: str) -> Any:
        return closing(httpx.Client(base_url=url, timeout=600))

    with serving(llama, tmp_path / "state") as url, connected(url) as client:
        asked = [ask(client, number) for number in range(20)]
        confidences = [each["confidence"] for each in asked]
        say(f"confidences {min(confidences):.2f} to {max(confidences):.2f}, sd {statistics.stdev(confidences):.3f}; ")
        say(f"digit mass {statistics.fmean(each['detail']['reply']['digit_mass'] for each in asked):.2f}")
        assert len(set(confidences)) == 20
        assert all(each["detail"]["posterior"] for each in asked)
        for each in asked:
            feedback = {"record_id": each["record_id"], "correct": False, "chance": 1.0}
            client.post("/v1/feedback", json=feedback).raise_for_status()
        moved = ask(client, 20)
        before = moved["detail"]["labelled"]["uncalibrated"]
        say(f"after 20 answers called wrong: {before:.2f} becomes {moved['confidence']:.2f}")
        assert moved["confidence"] < before - 0.05
    with serving(llama, tmp_path / "state") as url, connected(url) as client:
        again = ask(client, 21)
        say(f"after a restart: {again['detail']['labelled']['uncalibrated']:.2f} becomes {again['confidence']:.2f}")
        assert again["detail"]["labelled"]["labels"] == 20
        assert again["confidence"] < again["detail"]["labelled"]["uncalibrated"] - 0.05
