"""The flow of a question without a model: what is asked, in which order, and what depends on what."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from secl.evidence import OPTIONS, EvidenceKind, LetterOrder, Likelihood, Source, Thought
from secl.facts.tokens import place_tokens
from secl.flow.further import OWN
from secl.flow.questions import Case, answer, gather, rate, sample
from secl.flow.requests import (
    Choose,
    Flow,
    FlowRun,
    Judge,
    Read,
    ReadWithin,
    Request,
    StateConfidence,
    Stated,
    Text,
    Write,
)
from secl.prompts.templates import NONE_OF_THESE
from secl.question import Form, GivenAnswer, Question
from secl.records import Reply
from secl.writing import Chunk, Token

CHOICE = Question("Which is a metal?", options=("neon", "iron", "argon", "helium"), reference="B")
OPEN = Question("Capital of Peru?")
NUMBER = Question("What is 6 times 7?", form="number")
ALL: tuple[EvidenceKind, ...] = ("candidates", "p_true", "verdicts")

Rule = Callable[[Request], Any]


class ScriptedDriver:
    """A driver that answers by rule, and notes what it is asked.

    `texts` are the texts it writes by kind and draw, the last for all others.
    """

    likelihoods, letters, distractors, seed = True, 26, 4, 0

    def __init__(self, texts: Sequence[str] = ("Lima",), *, thinks: bool = False, always_thinks: bool = False) -> None:
        self.thinks, self.always_thinks, self.texts = thinks, always_thinks, texts
        self.asked: list[list[Request]] = []
        self.chosen, self.frugal = 1, True
        self.known: dict[str, tuple[float, tuple[tuple[str, float], ...]]] = {}

    def run(self, runs: Sequence[FlowRun]) -> None:
        for run in runs:
            while run.requests:
                self.asked.append([*run.requests])
                run.send([self.result(request) for request in run.requests])

    def ask(self, flow: Flow) -> list[list[Request]]:
        """Run a flow, and return the lists of its requests."""
        self.asked = []
        self.run([FlowRun(flow)])
        return self.asked

    def result(self, request: Request) -> Any:
        thought = Thought(text="Hm.", tokens=3) if getattr(request, "think", False) else None
        match request:
            case Write(what="list"):
                return Text(text="Cusco\nQuito\nBogota\nSucre\n", form="short")
            case Write(what="continuation", begun=begun):
                return Text(text="sco, and so on." if begun.endswith(" Cu") else "o", form="text")
            case Write(what="program"):
                return Text(text="```python\nprint(6 * 7)\n```", form="text")
            case Write(spare=True):
                return None if self.frugal else Text(text=self.texts[-1], form=request.question.form)
            case Write(question=question, draw=draw):
                number = 0 if draw is None else min(draw + 1, len(self.texts) - 1)
                return Text(text=self.texts[number], form=question.form, log_p=-1.0, thought=thought)
            case StateConfidence(question=question, answer=given):
                reply = reply_to(question, given, thought)
                words = [Token(word, *self.known.get(word, (-0.25,))) for word in re.findall(r"\s*\S+", reply.text)]
                tokens = place_tokens(words, reply.text) if question.free else None
                return Stated(reply=reply, plain_tokens=10, tokens=tokens)
            case ReadWithin(start=start):
                return -float(start)
            case Choose(order=order, draw=draw):
                log_p = tuple(-0.1 if i == (self.chosen if draw == 1 else 1) else -3.0 for i in range(len(order)))
                return LetterOrder(
                    order=order, log_p=log_p, thought=None if draw is None else Thought(text="", tokens=1)
                )
            case Judge(answer=text):
                return (0.9, 0.1) if text in ("Lima", "iron", "42") else (0.2, 0.8)
            case Read():
                return Likelihood(given=-1.0, alone=-5.0, tokens=2)

    def fits(self, question: Question) -> bool:
        return "too long" not in question.options

    def text_of(self, question: Question, written: str | Chunk, *, rated: bool = False) -> Text:  # noqa: ARG002
        return Text(text=str(written), form=question.form)

    def draw_letters(self, question: Question, log_p: Sequence[float], count: int) -> tuple[str | None, ...]:
        return (question.letters[log_p.index(max(log_p))],) * count if log_p else (None,) * count


def reply_to(question: Question, given: Text | str | None, thought: Thought | None) -> Reply:
    text = given.text if isinstance(given, Text) else given or "B"
    log_p = tuple(-0.1 if letter == text else -3.0 for letter in question.letters)
    bins = (0.0,) * 9 + (1.0,)
    thought = given.thought if isinstance(given, Text) else thought
    return Reply(
        text=text,
        answer=text or None,
        bins=bins,
        digit_mass=1.0,
        entropy=0.5,
        log_probability=-0.5,
        option_log_p=log_p,
        thought=thought,
    )


def test_everything_about_a_choice_is_asked_at_once() -> None:
    driver = ScriptedDriver()
    case = Case(CHOICE, driver)
    (requests,) = driver.ask(answer(case, ALL))
    assert requests[0] == StateConfidence(CHOICE)
    assert requests[1:] == [
        Choose(CHOICE, (3, 2, 1, 0)),
        *(Read(CHOICE, option) for option in CHOICE.options),
        *(Judge(CHOICE, option) for option in CHOICE.options),
    ]
    found: Any = case.evidence(ALL)
    assert found.p_true.candidates == ("iron", "neon", "argon", "helium")
    assert (found.p_true.probabilities, found.p_true.extra, found.p_true.source) == ((0.9, 0.2, 0.2, 0.2), 0, OPTIONS)
    assert found.candidates.likelihoods[1].pmi == 4


@pytest.mark.parametrize(("chosen", "always"), [(1, False), (2, False), (2, True)])
def test_a_third_thought_follows_only_if_two_led_to_different_options(chosen: int, always: bool) -> None:
    driver = ScriptedDriver(thinks=True, always_thinks=always)
    driver.chosen = chosen
    case = Case(CHOICE, driver)
    asked = driver.ask(answer(case, ["candidates"]))
    at_once = [] if always else [Choose(CHOICE, (0, 1, 2, 3)), Choose(CHOICE, (3, 2, 1, 0))]
    assert asked[0][:2] == [StateConfidence(CHOICE, think=True), Choose(CHOICE, (3, 2, 1, 0), draw=1)]
    assert [each for each in asked[0][2:] if isinstance(each, Choose)] == at_once
    assert asked[1:] == ([] if chosen == 1 else [[Choose(CHOICE, (0, 1, 2, 3), draw=2)]])
    found: Any = case.compared
    assert [each.thought is None for each in found.letters] == [True] * len(at_once) + [False] * len(asked)


def test_equal_options_are_one_option_for_the_third_thought() -> None:
    question = Question("Which?", options=("x", "y"))
    driver = ScriptedDriver(thinks=True)
    object.__setattr__(question, "options", ("y", "y"))
    driver.chosen = 0
    assert len(driver.ask(answer(Case(question, driver), ["candidates"]))) == 1


def test_an_answer_its_samples_and_the_list_are_written_together_and_then_all_is_read() -> None:
    driver = ScriptedDriver()
    case = Case(OPEN, driver)
    writes, reads = driver.ask(answer(case, ALL))
    spare = [Write(OPEN, draw=number, spare=True) for number in (3, 4)]
    assert writes == [Write(OPEN), *(Write(OPEN, draw=number) for number in range(3)), *spare, Write(OPEN, "list")]
    assert isinstance(reads[0], StateConfidence)
    assert [each.answer for each in reads if isinstance(each, Judge)] == ["Lima", "Cusco", "Quito", "Bogota", "Sucre"]
    choices = [each for each in reads if isinstance(each, Choose)]
    assert [each.question.options for each in choices] == [("Lima", NONE_OF_THESE)] * 2
    found: Any = case.evidence(ALL)
    assert found.candidates.candidates == ("Lima", NONE_OF_THESE)
    assert found.p_true.source == Source("answers", listed=4)


def test_a_second_round_follows_only_where_a_sample_differs_and_verdicts_are_about_all_candidates() -> None:
    driver = ScriptedDriver(["Lima", "Lima", "Rio", "Lima", "La Paz"])
    case = Case(OPEN, driver)
    first, second, reads = driver.ask(answer(case, ["candidates", "verdicts"]))
    assert [getattr(each, "draw", 0) for each in first + second] == [None, 0, 1, 2, 3, 4, 3, 4]
    assert [each.answer for each in reads if isinstance(each, Judge)] == ["Lima", "La Paz", "Rio"]
    found: Any = case.evidence(["candidates", "verdicts"])
    assert found.candidates.candidates == ("Lima", "La Paz", "Rio", NONE_OF_THESE)
    assert (found.p_true.extra, found.p_true.compared) == (2, {"Lima": 0.9})


@pytest.mark.parametrize(("texts", "used"), [(["Lima"], 3), (["Lima", "Rio"], 5)])
def test_spare_samples_count_only_where_the_second_round_is_needed(texts: list[str], used: int) -> None:
    driver = ScriptedDriver(texts)
    driver.frugal = False
    case = Case(OPEN, driver)
    assert len(driver.ask(answer(case, ["candidates"]))) == 2
    assert len(case.samples) == used


def test_p_true_of_distractors_does_not_depend_on_other_evidence() -> None:
    driver = ScriptedDriver(["Lima", "Rio"])
    compared = []
    for kinds in (["p_true"], ["p_true", "candidates"], ["p_true", "candidates", "verdicts"]):
        case = Case(OPEN, driver)
        driver.ask(answer(case, kinds))  # type: ignore[arg-type]
        found: Any = case.p_true
        compared.append((found.compared, found.source))
    assert compared == [compared[0]] * 3


def test_a_number_is_compared_with_a_program_written_beside_it() -> None:
    driver = ScriptedDriver(["42"])
    case = Case(NUMBER, driver)
    writes, _ = driver.ask(answer(case, ["candidates"]))
    assert writes == [Write(NUMBER), Write(NUMBER, "program")]
    assert [(each.text, each.program) for each in case.samples] == [("42", True)]


@pytest.mark.parametrize(("text", "rounds"), [("Rome, I think.", 3), ("Rome.\nIt lies on the Tiber.", 1)])
def test_only_a_brief_free_answer_is_compared(text: str, rounds: int) -> None:
    question = Question("Tell me.", form="text")
    driver = ScriptedDriver()
    asked = driver.ask(answer(Case(question, driver), ["candidates"], Text(text=text, form="text")))
    assert len(asked) == rounds
    assert isinstance(asked[-1][0], StateConfidence)


def test_an_answer_from_elsewhere_is_judged_with_its_rivals_and_without_thoughts() -> None:
    driver = ScriptedDriver(thinks=True)
    case = Case(OPEN, driver)
    given = GivenAnswer(OPEN, "Cusco", rivals=("Lima", "cusco"))
    driver.ask(rate(case, given, ["candidates", "p_true"]))
    found: Any = case.p_true
    assert (found.candidates, found.source) == (("Cusco", "Lima"), Source("answers", given=1))
    assert not any(getattr(each, "think", False) for requests in driver.asked for each in requests)
    case = Case(CHOICE, driver)
    (requests,) = driver.ask(rate(case, GivenAnswer(CHOICE, "A"), ["candidates"]))
    assert requests[0] == StateConfidence(CHOICE, "A")
    assert [each.answer for each in requests if isinstance(each, Judge)] == ["neon"]


@pytest.mark.parametrize("form", ["short", "sentence", "text"])
def test_a_given_answer_is_compared_with_the_answer_of_the_model_itself(form: Form) -> None:
    def draws(flow: Flow) -> list[int | None]:
        asked = driver.ask(flow)
        return [*dict.fromkeys(each.draw for requests in asked for each in requests if isinstance(each, Write))]

    question, driver = replace(OPEN, form=form), ScriptedDriver(("never", "seldom"))
    given = GivenAnswer(question, "It is never so.")
    case = Case(question, driver)
    assert draws(rate(case, given, ["candidates"])) == [OWN, 0, 1, 2, 3]
    assert [each.own for each in case.samples] == [True, False, False, False, False]
    assert draws(answer(Case(question, driver), ["candidates"])) == [None, 0, 1, 2, 3, 4]  # as many texts
    first, *_ = driver.ask(rate(Case(NUMBER, driver), GivenAnswer(NUMBER, "41"), ["candidates"]))
    assert [each.what for each in first if isinstance(each, Write)] == ["program"]


def test_what_is_known_is_not_asked_again() -> None:
    driver = ScriptedDriver()
    for question in (CHOICE, OPEN):
        case = Case(question, driver)
        driver.ask(answer(case, ALL))
        assert driver.ask(gather(case.about(case.reply), ALL)) == []
        other = case.about(reply_to(question, "A" if question.options else "Quito", None))
        again = driver.ask(gather(other, ALL))
        found: Any = other.p_true
        if question.options:
            assert (again, found.candidates[0]) == ([], "neon")
        else:  # the samples and the list do not depend on the answer
            assert [draw.draw for draw in again[0] if isinstance(draw, Write)] == [3, 4]
            assert found.candidates[0] == "Quito"


@pytest.mark.parametrize("kinds", [["candidates", "verdicts"], ["candidates", "p_true"], ALL], ids="+".join)
def test_a_long_answer_is_judged_once(kinds: list[EvidenceKind]) -> None:
    """An answer that cannot be compared with others has no candidates, and nobody asks for them again."""
    question = Question("Tell me.", form="text")
    driver = ScriptedDriver()
    case = Case(question, driver)
    driver.ask(answer(case, kinds, Text(text="Rome.\nIt lies on the Tiber.", form="text")))
    assert sum(isinstance(each, Judge) for each in driver.asked[-1]) == 1
    assert driver.ask(gather(case.about(case.reply), kinds)) == []


def test_samples_count_where_no_letter_is_readable() -> None:
    class Mumbling(ScriptedDriver):
        def result(self, request: Request) -> Any:
            return None if isinstance(request, Choose) else super().result(request)

    driver = Mumbling(["Lima", "Rio"])
    case = Case(OPEN, driver)
    driver.ask(answer(case, ["candidates"]))
    found: Any = case.compared
    assert (found.letters, len(found.samples)) == ((), 5)


def test_candidates_that_do_not_fit_and_unreadable_answers_are_not_compared() -> None:
    driver = ScriptedDriver(["too long", "x"])
    case = Case(OPEN, driver)
    driver.ask(answer(case, ["candidates"]))
    assert case.compared is None
    driver = ScriptedDriver([""])
    case = Case(OPEN, driver)
    driver.ask(answer(case, ALL))
    assert (case.compared, case.p_true) == (None, None)


@pytest.mark.parametrize("thinks", [False, True])
def test_answers_for_self_consistency_are_drawn_in_the_form_of_the_answer(thinks: bool) -> None:
    driver = ScriptedDriver(["Lima", "Rio", "Lima"], thinks=thinks)
    case = Case(OPEN, driver)
    assert driver.ask(sample(case, 3)) == [[Write(OPEN, draw=number, think=thinks) for number in range(3)]]
    assert case.answers == ("Rio", "Lima", "Lima")
    case = Case(CHOICE, driver)
    (requests,) = driver.ask(sample(case, 2))
    assert requests == (
        [Choose(CHOICE, (0, 1, 2, 3), draw=3 + n) for n in range(2)] if thinks else [StateConfidence(CHOICE)]
    )
    assert case.answers == ("B", "B")


def test_the_frozen_model_draws_answers_whatever_the_adapted_model_replies() -> None:
    driver = ScriptedDriver([])
    case = Case(CHOICE, driver)
    driver.ask(answer(case, []))
    learned = case.about(replace(case.reply, answer="D", option_log_p=(-9.0, -9.0, -9.0, -0.1)))
    assert driver.ask(sample(learned, 2)) == []
    assert learned.answers == ("B", "B")


def test_an_unreadable_verdict_of_a_distractor_leaves_only_that_distractor_out() -> None:
    class Deaf(ScriptedDriver):
        def result(self, request: Request) -> Any:
            return None if request == Judge(OPEN, "Quito") else super().result(request)

    driver = Deaf()
    case = Case(OPEN, driver)
    driver.ask(answer(case, ALL))
    found: Any = case.p_true
    assert [*found.compared] == ["Lima", "Cusco", "Bogota", "Sucre"]
    assert math.isclose(sum(found.probabilities), 1.5)


TALE = Question("Tell me about Peru.", form="text")
LONG = "The capital of Peru is Lima.\nIt was founded in 1535."


@pytest.mark.parametrize("written", [None, LONG])
def test_the_facts_of_a_text_need_no_request_of_their_own(written: str | None) -> None:
    driver = ScriptedDriver([LONG])
    case = Case(TALE, driver)
    text = None if written is None else Text(text=written, form="text")
    requests = driver.ask(answer(case, ["candidates"], text))
    assert [[type(each) for each in some] for some in requests][-1] == [StateConfidence]
    assert len(requests) == (2 if written is None else 1)
    facts = case.evidence(["candidates"]).facts
    assert facts is not None
    assert [(LONG[each.start : each.end], each.log_p) for each in facts] == [("Lima", -0.25), ("1535", -0.25)]
    assert case.evidence(["p_true"]).facts is None


def test_a_doubtful_fact_has_other_values_as_candidates() -> None:
    driver = ScriptedDriver([LONG])
    others = ((" Cu", -1.0), (" a", -1.5), (" Are", -2.0), (" Xy", -9.0))
    driver.known = {" Lima.": (-1.0, ((" Lima.", -1.0), *others))}
    case = Case(TALE, driver)
    *_, written = driver.ask(answer(case, ["candidates"]))
    assert [each.begun for each in written if isinstance(each, Write)] == [
        "The capital of Peru is Cu",
        "The capital of Peru is Are",
    ]
    assert case.facts is not None
    ((other, log_p),) = case.facts[0].others  # the second continuation ends within its value
    assert other == "Cusco"
    assert log_p == pytest.approx(-1.0 - math.log(2 * math.exp(-1.0) + math.exp(-2.0) + math.exp(-9.0)))
    assert case.facts[1].others == ()


def test_facts_of_a_text_about_a_passage_are_read_again_without_the_passage() -> None:
    driver = ScriptedDriver([LONG])
    about = replace(TALE, context="Lima is the capital.")
    case = Case(about, driver)
    *_, again = driver.ask(rate(case, GivenAnswer(about, LONG), ["candidates"]))
    assert again == [ReadWithin(TALE, LONG, 23, 27), ReadWithin(TALE, LONG, 47, 51)]
    facts = case.evidence(["candidates"]).facts
    assert facts is not None
    assert [(each.alone, each.in_passage) for each in facts] == [(-23.0, True), (-47.0, False)]


def test_what_an_answer_takes_from_a_document_in_the_message_is_a_fact() -> None:
    document = replace(TALE, text=f"Summarise this: Lima was founded in 1535. {'It lies by the sea. ' * 20}")
    for question, count in ((replace(TALE, text="Was Lima founded in 1535?"), 1), (document, 3)):
        case = Case(question, ScriptedDriver([LONG]))
        case.driver.run([FlowRun(answer(case, ["candidates"]))])
        assert case.facts is not None
        assert len(case.facts) == count
