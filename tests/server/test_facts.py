"""Facts of texts over HTTP: their places and confidences in replies, their labels, and what a state folder keeps."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from secl.cli.state import explanation_page, history_page
from secl.evaluation.acceptance import answers_of
from secl.labels.state import LabelState
from secl.question import Question
from secl.runs.labelling import review_queue
from secl.server import retention
from secl.server.online.service import Service
from secl.server.records import history
from secl.server.retention import Retention
from secl.server.store import ServerStore
from secl.testing import ScriptedModel
from secl.writing import Chunk, SamplingParameters, Token
from tests.facts.test_facts import ABOUT, TEXT
from tests.server.conftest import Make, Patch, client_of, metrics_of
from tests.server.waiting import close, examined, prune, spoiled, until

POSTERIOR: dict[str, object] = {"method": "posterior", "loop.accept": 0.5}
POEM = "roses are red and violets are blue, and the sea is calm tonight\n" * 5
NUMBERS = ("start", "end", "confidence", "low", "high", "candidates")
VALUES = ["Lima", "1535", "Francisco Pizarro", "10 million people", "Callao"]


class Chatty(ScriptedModel):
    """Writes a text with facts after empty lines; text i has another year. Asked for a poem, it writes one."""

    def write(self, question: Question, sampling: SamplingParameters) -> Iterator[Chunk]:
        for choice in range(sampling.n):
            text = POEM if "poem" in question.text else f"\n\n {TEXT.replace('1535', str(1535 + choice))}\n"
            tokens = () if sampling.top_logprobs is None else (Token(text, -0.5),)
            yield Chunk(choice=choice, text=text[:20], tokens=tokens)
            yield Chunk(choice=choice, text=text[20:], finish="stop", prompt_tokens=4, completion_tokens=50)


def chatty(make_service: Make, **how: Any) -> Service:
    return make_service(**{"model": Chatty(), "settings": POSTERIOR, **how})


def chat(service: Service, asked: str = ABOUT, **fields: Any) -> list[tuple[str, Any]]:
    """Chat; return the content and the object `secl` of each choice, whole or streamed."""
    body = {"model": "scripted", "messages": [{"role": "user", "content": asked}], **fields}
    with client_of(service) as client:
        reply = client.post("/v1/chat/completions", json=body)
    assert reply.status_code == 200, reply.text
    if not fields.get("stream"):
        choices = reply.json()["choices"]
        assert reply.json()["secl"] == choices[0]["secl"]
        return [(choice["message"]["content"], choice["secl"]) for choice in choices]
    texts, secl = dict[int, str](), dict[int, Any]()
    for line in reply.text.split("\n\n"):
        for choice in json.loads(line[6:])["choices"] if line.startswith("data: {") else ():
            texts[choice["index"]] = texts.get(choice["index"], "") + choice["delta"].get("content", "")
            if choice["finish_reason"] is not None:
                secl[choice["index"]] = choice["secl"]
    return [(texts[index], secl[index]) for index in sorted(texts)]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fields", [{}, {"n": 3}, {"logprobs": True, "top_logprobs": 2}])
def test_a_chat_names_the_places_and_confidences_of_its_facts(
    make_service: Make, fields: dict[str, Any], stream: bool
) -> None:
    answered = chat(chatty(make_service), stream=stream, **fields)
    assert len(answered) == fields.get("n", 1)
    for number, (content, secl) in enumerate(answered):
        assert content.startswith("\n\n ")
        facts = secl["facts"]
        assert [content[fact["start"] : fact["end"]] for fact in facts] == [fact["text"] for fact in facts]
        assert [fact["text"] for fact in facts] == [VALUES[0], str(1535 + number), *VALUES[2:]]
        assert [fact["number"] for fact in facts] == [1, 2, 3, 4, 5]
        assert [fact["kind"] for fact in facts] == ["name", "date", "name", "number", "name"]
        assert secl["confidence"] == pytest.approx(math.prod(fact["confidence"] for fact in facts))
        assert secl["expected_wrong"] == pytest.approx(sum(1 - fact["confidence"] for fact in facts))
        for fact in facts:
            assert fact["low"] <= fact["confidence"] <= fact["high"]
            assert fact["accepted"] is (fact["confidence"] >= fact["accept"] == 0.5)
            assert fact["candidates"][0] == {"text": fact["text"], "probability": fact["confidence"]}
        assert (secl["accepted"], secl["accept"], "reason" in secl) == (False, 0.5, False)


def verdicts(value: Any) -> Iterator[tuple[Any, Any]]:
    """All pairs (`accepted`, `accept`) in a JSON value."""
    if isinstance(value, dict) and "accepted" in value:
        yield value["accepted"], value["accept"]
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from verdicts(part)


def test_no_exit_says_whether_an_answer_is_accepted_without_its_threshold(make_service: Make) -> None:
    service = chatty(make_service)
    chat(service)
    labelled(service, 0, fact=2, correct=False, chance=1)
    exits: list[Any] = [chat(service, stream=stream)[0][1] for stream in (False, True)]
    exits.append(chat(service, "Write a poem.", secl={"detail": "full"})[0][1])
    with client_of(service) as client:
        asked = {"question": ABOUT, "detail": "full"}
        exits.append(client.post("/v1/ask", json={**asked, "form": "text"}).json())
        exits.append(client.post("/v1/score", json={**asked, "answer": TEXT}).json())
        exits.append(client.post("/v1/score", json={**asked, "answer": "Lima"}).json())
        listed = client.get("/v1/records").json()["records"]
        exits += [listed, *(client.get(f"/v1/records/{each['record_id']}").json() for each in listed)]
    for number, exit_ in enumerate(exits):
        found = list(verdicts(exit_))
        assert found, number
        assert all((accepted is None) == (accept is None) for accepted, accept in found), number
    own = {fact["accept"] for fact in exits[0]["facts"]}
    assert exits[0]["accept"] == exits[1]["accept"] == max(own) < 0.5
    assert [each["accept"] for each in listed][-2:] == [max(own), 0.5]


def test_the_overview_averages_over_facts_and_the_history_counts_texts_with_labels(make_service: Make) -> None:
    service = chatty(make_service)
    texts = [chat(service)[0][1] for _ in range(2)]
    chat(service, "Write a poem.")
    wrong, facts = sum(text["expected_wrong"] for text in texts), sum(len(text["facts"]) for text in texts)
    mean = 1 - wrong / facts
    assert mean > 3 * max(text["confidence"] for text in texts)
    with client_of(service) as client:
        page = client.get("/").text
    assert f"confidence {mean:.2f} on average (of the facts of a text)" in page
    assert f"<dt>Confidence, mean</dt><dd>{mean:.2f}" in page
    for fact in (1, 2, 3):
        labelled(service, 0, fact=fact, correct=True)
    past = history(service.state)
    assert (past["answers"], past["labelled"], past["labels"]) == (3, 1, 3)
    assert "1 answer (3 labels) labelled by people" in str(history_page(past)[2])


def test_a_text_without_facts_has_no_confidence_and_an_unwanted_one_has_no_facts(make_service: Make) -> None:
    service = chatty(make_service)
    ((_, secl),) = chat(service, "Write a poem.")
    assert (secl["facts"], secl["expected_wrong"], secl["confidence"]) == ([], None, None)
    assert "no number, date, name" in secl["reason"]
    ((_, unwanted),) = chat(service, secl={"confidence": False})
    assert "facts" not in unwanted
    with client_of(service) as client:
        assert "nan" not in str(metrics_of(client))
        assert "facts" not in client.post("/v1/ask", json={"question": "Why?"}).json()


def test_asked_and_given_texts_have_facts(make_service: Make) -> None:
    service = chatty(make_service)
    with client_of(service) as client:
        asked = client.post("/v1/ask", json={"question": ABOUT, "form": "text"}).json()
        given = [
            client.post("/v1/score", json={"question": ABOUT, "answer": f"  {TEXT}\n", **form}).json()
            for form in ({"form": "text"}, {})  # a long answer has the form "text"
        ]
    for reply in (asked, *given):
        assert reply["text"].strip() == TEXT
        assert [reply["text"][fact["start"] : fact["end"]] for fact in reply["facts"]] == VALUES
    kinds = [service.state.served(position).record.kind for position in range(3)]
    assert kinds == ["asked", "given", "given"]


def labelled(service: Service, position: int, **said: Any) -> Any:
    with client_of(service) as client:
        return client.post("/v1/feedback", json={"record_id": str(position), **said})


def test_labels_of_facts_move_the_facts_of_later_texts_also_after_a_restart(make_service: Make) -> None:
    service = chatty(make_service)
    ((_, before),) = chat(service)
    counts = [labelled(service, 0, fact=fact, correct=False, chance=1).json()["labels"] for fact in range(1, 6)]
    assert counts == [1, 2, 3, 4, 5]
    assert [label.domain for label in service.state.labels()] == ["name", "date", "name", "number", "name"]
    ((_, after),) = chat(service)
    folder = close(service)
    again = chatty(make_service, folder=folder)
    ((_, restarted),) = chat(again)
    for old, new, same in zip(before["facts"], after["facts"], restarted["facts"], strict=True):
        assert new["confidence"] < old["confidence"]
        assert new["accepted"] == old["accepted"]
        assert [same[name] for name in NUMBERS] == [new[name] for name in NUMBERS]
    assert examined(again.state) == (3, [])


def test_a_label_without_a_number_is_about_all_facts(make_service: Make) -> None:
    service = chatty(make_service)
    chat(service)
    chat(service, "Write a poem.")
    assert labelled(service, 0, correct=True).json()["labels"] == 5
    assert labelled(service, 0, correct=None).json()["labels"] == 0
    for position, said, sentence in (
        (0, {"correct": False}, "the text at position 0 states 5 facts; name the wrong one (fact: 1 to 5)."),
        (0, {"correct": True, "fact": 6}, "the answer at position 0 has 5 facts, so it has no fact 6."),
        (1, {"correct": True}, "the text at position 1 states no facts, so there is nothing to label."),
    ):
        refused = labelled(service, position, **said)
        assert (refused.status_code, refused.json()["error"]["message"]) == (400, sentence)
    assert labelled(service, 0, correct=True, fact=0).status_code == 400


def test_a_text_is_labelled_as_its_facts_are(make_service: Make) -> None:
    service = chatty(make_service)
    for _ in range(4):
        chat(service)
    labelled(service, 0, correct=True)
    labelled(service, 1, correct=True)
    labelled(service, 1, correct=False, fact=2)
    labelled(service, 2, correct=True, fact=2)
    assert [service.state.served(position).label for position in range(4)] == [True, False, None, None]
    with client_of(service) as client:
        found = {
            label: [each["position"] for each in client.get("/v1/records", params={"label": label}).json()["records"]]
            for label in ("right", "wrong", "none")
        }
    assert found == {"right": [0], "wrong": [1], "none": [3, 2]}


def test_a_server_that_keeps_no_texts_keeps_places_and_numbers_of_facts(make_service: Make) -> None:
    kept, service = chatty(make_service, folder="full"), chatty(make_service, keep_text="none")
    ((_, secl),) = chat(service)
    chat(kept)
    labelled(service, 0, fact=4, correct=True, chance=1)
    ((_, later),) = chat(service)
    assert later["facts"][3]["confidence"] > secl["facts"][3]["confidence"]
    assert examined(service.state) == (2, [])
    (body,) = [row for (row,) in service.state.rows("SELECT body FROM records WHERE position = 0")]
    for word in (*VALUES, "capital", "____", "Peru"):
        assert word not in body
    record, whole = service.state.served(0).record, kept.state.served(0).record
    assert [(fact.fact, fact.span, fact.confidence) for fact in record.facts or ()] == [
        (fact.fact, fact.span, fact.confidence) for fact in whole.facts or ()
    ]


@pytest.mark.parametrize("keep_text", ["full", "none"])
def test_a_changed_fact_is_found(make_service: Make, tmp_path: Path, keep_text: Any) -> None:
    service = chatty(make_service, keep_text=keep_text)
    chat(service)
    labelled(service, 0, fact=1, correct=True)
    chat(service)
    folder = close(service)
    for number, (path, value, check) in enumerate(
        (
            ("facts[2].posterior.probabilities[0]", "0.99", "posterior"),
            ("facts[2].evidence.candidates.likelihoods[0].given", "-0.01", "posterior"),
            ("facts[2].labelled.calibrated", "0.99", "labels"),
        )
    ):
        change = f"UPDATE records SET body = json_set(body, '$.{path}', {value}) WHERE position = 1"
        with ServerStore(spoiled(folder, tmp_path / str(number), change)) as state:
            _, findings = examined(state)
        assert any(each.check == check and each.detail.startswith("fact 3: ") for each in findings), (path, findings)


def test_labels_of_facts_outlive_the_records_that_pruning_removes(make_service: Make, monkeypatch: Patch) -> None:
    monkeypatch.setattr(retention, "REST", 0.0)
    service = chatty(make_service)
    for position in range(6):
        chat(service)
        labelled(service, position, correct=True, drawn=True)
    prune(service.state, Retention(records=2))
    assert examined(service.state) == (2, [])
    log = service.state.label_log()
    assert len(log) == 30
    answers = answers_of(service.state.records(), log)
    assert (answers.basis, answers.correct.size, len({*answers.unit})) == ("labels", 30, 6)
    ((_, later),) = chat(service)
    state = LabelState.start().add(log)
    record = service.state.served(6).record
    assert [fact["confidence"] for fact in later["facts"]] == pytest.approx(
        [state.calibrated(fact.question.domain, fact.confidences.uncalibrated) for fact in record.facts or ()]
    )


def test_a_replay_after_a_kill_gives_the_same_facts(make_service: Make, tmp_path: Path) -> None:
    service = chatty(make_service)
    for _ in range(3):
        chat(service)
        labelled(service, len(service.state) - 1, fact=2, correct=False, chance=1)
    # A copy of the folder of a running server is what a kill leaves behind.
    killed = Path(shutil.copytree(service.state.folder, tmp_path / "killed"))
    expected = chat(service)
    again = chatty(make_service, folder=killed)
    assert len(again.state) == 3
    for (_, first), (_, second) in zip(expected, chat(again), strict=True):
        assert [[fact[name] for name in NUMBERS] for fact in first["facts"]] == [
            [fact[name] for name in NUMBERS] for fact in second["facts"]
        ]
    assert again.calibrator.state == service.calibrator.state


def test_the_page_of_a_text_shows_each_fact_in_the_text_and_in_a_row(make_service: Make) -> None:
    service = chatty(make_service)
    chat(service)
    chat(service, "Write a poem.")
    labelled(service, 0, fact=2, correct=False)
    labelled(service, 0, fact=1, correct=True)
    with client_of(service) as client:
        page, poem, listed = (client.get(address).text for address in ("/records/0", "/records/1", "/records"))
        explained = client.get("/v1/records/0").json()
    record = service.state.served(0).record
    marked = re.findall(r'<mark class="fact( shade-\d)?" title="(.*?)"><a href="#fact-(\d)">(.*?)</a></mark>', page)
    assert [(number, text) for *_, number, text in marked] == [(str(n), text) for n, text in enumerate(VALUES, 1)]
    assert [shade for shade, *_ in marked[:3]] == [" shade-0", " shade-4", " shade-3"]  # right, wrong, and 0.37
    assert re.findall(r'class="fact-row" id="fact-(\d)"', page) == ["1", "2", "3", "4", "5"]
    for fact in record.facts or ():
        assert f"{fact.confidence:.2f}" in page
    assert (
        page.count('data-correct="true" aria-pressed="true"')
        == page.count('data-correct="false" aria-pressed="true"')
        == 1
    )
    assert "People labelled 2 of 5 facts, 1 of them as wrong." in explained["why"]
    assert explained["fact_labels"] == {"1": True, "2": False}
    expected = sum(1 - fact.confidence for fact in (record.facts or ())[2:]) + 1
    assert f'<span class="figure">{expected:.1f}</span>' in page
    assert f"of the 5 facts of the text, {5 - expected:.1f} are expected to be right" in explained["why"][0].lower()
    shown = "\n".join(map(str, explanation_page(service.state.served(0), explained)))
    assert "1535" in shown
    assert "The text states no fact, so it has no confidence." in poem
    assert "data-correct" not in poem
    assert re.findall(r"\d+ facts, [\d.]+ expected wrong", listed) == ["5 facts, 2.6 expected wrong"]


def test_a_page_of_a_text_that_is_not_kept_names_places(make_service: Make) -> None:
    service = chatty(make_service, keep_text="none")
    chat(service)
    with client_of(service) as client:
        page = client.get("/records/0").text
    assert "<strong>fact 2</strong>, characters 57 to 61" in page
    assert not any(value in page for value in VALUES)


def test_a_review_draws_texts_and_asks_about_each_fact(make_service: Make) -> None:
    service = chatty(make_service)
    chat(service)
    chat(service, "Write a poem.")
    chat(service)
    assert sorted(review_queue(service.state).positions) == [0, 2]  # nothing in a poem can be judged
    with client_of(service) as client:
        page = client.get("/review").text
        assert "Which of these 5 facts are right?" in page
        assert "shade-" not in page.partition("<details>")[0]  # a confidence would bias the label
        assert f"{service.state.served(0).record.facts[0].confidence:.2f}" not in page.partition("<details>")[0]  # type: ignore[index]
        first, second = review_queue(service.state).positions
        for fact in range(1, 6):
            assert review_queue(service.state).positions == (first, second)
            labelled(service, first, fact=fact, correct=fact > 1, drawn=True)
        assert review_queue(service.state).positions == (second,)
        assert "1 of the latest 2 answers are rated." in client.get("/review").text
        labelled(service, second, fact=1, correct=True, drawn=True)
        for fact in range(2, 6):
            labelled(service, second, fact=fact, correct=None, skipped=True, drawn=True)
        assert review_queue(service.state).positions == (second,)  # skipped facts come again
        labelled(service, first, correct=None)
        assert review_queue(service.state).positions == (first, second)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1200, 390])
def test_in_a_browser_a_review_of_a_text_takes_keys_and_mouse(
    make_service: Make, host: Callable[[Service], str], tab: Any, width: int
) -> None:
    service = chatty(make_service)
    for _ in range(2):
        chat(service)
    first, second = review_queue(service.state).positions
    address = host(service)
    tab.set_viewport_size({"width": width, "height": 800})
    tab.goto(f"{address}/review")
    at(tab, service, first)
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    tab.keyboard.press("r")
    tab.locator("#fact-2.current").wait_for()
    tab.keyboard.press("w")
    tab.locator("#fact-3.current").wait_for()
    tab.click("#fact-5 button:has-text('Wrong')")
    tab.locator("#fact-5 [aria-pressed=true]").wait_for()
    tab.click("#fact-5 button:has-text('Wrong')")  # takes the label back
    tab.locator("#fact-5 [aria-pressed=true]").wait_for(state="detached")
    assert service.state.verdicts(first) == {1: True, 2: False}
    tab.keyboard.press("a")
    at(tab, service, second)
    assert service.state.verdicts(first) == {1: True, 2: False, 3: True, 4: True, 5: True}
    assert {label.chance for label in service.state.labels()} == {1.0}
    tab.keyboard.press("s")
    tab.locator(".empty").wait_for()
    tab.wait_for_load_state()
    assert sum(entry.skipped for entry in service.state.label_log()) == 5
    tab.goto(f"{address}/records/{first}")
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    tab.click("#fact-1 button:has-text('Wrong')")
    until(lambda: service.state.verdicts(first)[1] is False)
    tab.locator("mark.shade-4:has-text('Lima')").wait_for()
    tab.click("text=Take back all")
    until(lambda: service.state.verdicts(first) == {})


def at(tab: Any, service: Service, position: int) -> None:
    """Wait until the review shows a record, and the page reacts to keys."""
    tab.locator(f'.whole[data-record="{service.state.served(position).id}"]').wait_for()
    tab.locator("#fact-1.current").wait_for()
