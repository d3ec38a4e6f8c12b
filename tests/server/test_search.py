"""Search finds the same records, page by page, as a scan of all records."""

import pytest

from secl.errors import ParameterError
from secl.question import Question
from secl.runs.labelling import review_queue
from secl.server.entries import answer_text
from secl.server.online.service import Service
from secl.server.records import Search, search
from secl.server.store import ServerStore
from secl.testing import toy_stream
from tests.server.conftest import Make, client_of
from tests.server.waiting import settled

WANTED = (
    Search(),
    Search(label="right"),
    Search(label="wrong"),
    Search(label="none"),
    Search(min_confidence=0.6),
    Search(max_confidence=0.5, label="none"),
    Search(query="what 7", label="right"),
    Search(domain="nowhere"),
)


def rated(service: Service, count: int = 60) -> Service:
    """The service after answers and lessons; every third answer has a label, and some labels were taken back."""
    for number, question in enumerate(toy_stream(count)):
        service.ask(question, 20)
        if number % 3 == 0:
            service.state.add_feedback(number, number % 2 == 0)
        if number % 9 == 0:
            service.state.add_feedback(number, None)
    settled(service)
    return service


def by_looking(state: ServerStore, wanted: Search) -> list[int]:
    """Positions of matching records, found by a scan."""
    said = {label.position: label.correct for label in state.labels()}
    found = []
    for record in state.records():
        text = " ".join((record.question.text, *record.question.options, answer_text(record))).lower()
        fits = (
            all(word in text for word in wanted.query.split()),
            wanted.domain in ("", record.question.domain),
            wanted.min_confidence <= record.confidence <= wanted.max_confidence,
            wanted.label is None
            or said.get(record.position) is {"right": True, "wrong": False, "none": None}[wanted.label],
        )
        found += [record.position] if all(fits) else []
    return found[::-1]


def all_pages(state: ServerStore, wanted: Search, count: int) -> list[int]:
    found, before = list[int](), None
    while True:
        page = search(state, wanted.model_copy(update={"count": count, "before": before}))
        assert len(page.records) <= count
        found += [each.position for each in page.records]
        if page.before is None:
            return found
        before = page.before


@pytest.fixture(scope="module")
def state(share_service: Make) -> ServerStore:
    """State of a server with sixty answers, for tests that only read."""
    return rated(share_service()).state


@pytest.mark.parametrize("wanted", WANTED, ids=str)
def test_pages_together_are_what_a_look_at_all_records_finds(state: ServerStore, wanted: Search) -> None:
    expected = by_looking(state, wanted)
    assert expected or wanted.domain
    assert all_pages(state, wanted, 7) == all_pages(state, wanted, 1000) == expected


def test_parts_of_words_are_found_without_case_and_accents_and_never_as_a_language(
    make_service: Make,
) -> None:
    service = make_service()
    texts = ("Where is Malmö?", "A NEAR miss", 'He said "near the end" twice', "sad sleep of 7 * 8", "Ünder_score")
    for text in texts:
        service.ask(Question(text, options=("Zürich", "Île de Ré")), 20)

    def found(query: str) -> list[int]:
        return sorted(each.position for each in search(service.state, Search(query=query)).records)

    assert found("malmo") == [0]
    assert found("near") == [1, 2]
    assert found('"near the"') == [2]
    assert found("end near") == [2]
    assert found("zurich") == [0, 1, 2, 3, 4]
    assert found("malm") == found("MALMÖ?") == [0]
    assert found("malmo OR sad") == found("ma%") == found("question : malmo") == found("ma*") == []
    assert found("8 AND 7") == []
    assert found("7 * 8") == found("8 7") == found("*") == [3]
    assert found('""') == found('" "') == found("") == [0, 1, 2, 3, 4]


def test_without_texts_no_words_are_kept_and_none_are_looked_for(make_service: Make) -> None:
    service = make_service(keep_text="none")
    service.ask(Question("A secret phrase?", options=("hidden thing", "other")), 20)
    assert len(search(service.state, Search()).records) == 1
    with pytest.raises(ParameterError, match=r"keeps no texts \(--keep-text none\)"):
        search(service.state, Search(query="secret"))


def test_a_random_review_draws_every_recent_answer_alike_and_goes_on_where_it_was_left(make_service: Make) -> None:
    service = rated(make_service(), 60)
    queue = review_queue(service.state)
    unrated = by_looking(service.state, Search(label="none"))
    assert sorted(queue.positions) == list(range(60))  # with answers that volunteers have rated
    assert list(queue.positions) not in (list(range(60)), list(range(60))[::-1])
    assert (queue.rated, queue.answers) == (60 - len(unrated), 60)
    first, second, third, *_ = queue.positions
    service.state.add_feedback(first, True, chance=1.0)
    assert review_queue(service.state).positions == queue.positions[1:]
    assert review_queue(service.state, after=second).positions[0] == third
    assert review_queue(service.state, after=10**6).positions == queue.positions[1:]
    service.state.add_feedback(second, None, drawn=True, skipped=True)  # a skipped answer comes last
    assert review_queue(service.state, after=second).positions == (*queue.positions[2:],)
    assert review_queue(service.state).positions == (*queue.positions[2:], second)


def test_the_api_searches_pages_and_refuses_in_words(make_service: Make) -> None:
    service = rated(make_service(), 25)
    client = client_of(service)
    page = client.get("/v1/records", params={"count": 10, "query": "what"}).json()
    older = client.get("/v1/records", params={"count": 10, "query": "what", "before": page["before"]}).json()["records"]
    assert [each["position"] for each in (*page["records"], *older)] == [*range(24, 4, -1)]
    first = client.get("/v1/records", params={"count": 1, "label": "right", "min_confidence": 0.2}).json()["records"][0]
    record = client.get(f"/v1/records/{first['record_id']}").json()
    assert first["label"] is record["label"] is True
    assert first["confidence"] == record["record"]["confidence"]
    assert first["question"] == record["record"]["question"]["text"]
    for params, sentence in (
        ({"min_confidence": 0.9, "max_confidence": 0.1}, "no record can match; exchange the two bounds."),
        ({"before": "yesterday"}, "before: "),
        ({"label": "good"}, "label: "),
        ({"qeury": "x"}, "does not know the field 'qeury'; leave it out."),
        ({"count": 1000}, "count: "),
    ):
        refused = client.get("/v1/records", params=params)
        assert refused.status_code in (400, 422)
        assert sentence in refused.json()["error"]["message"]
