"""The evidence of DINCO: the most probable answers, each verified alone, all compared with each other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby

from secl.backends.base import Bundle
from secl.backends.generation import Draft
from secl.backends.local.asking.asker import Asker
from secl.backends.local.asking.nli import NliModel, Pair
from secl.evidence import DincoEvidence
from secl.grading.texts import answer_key
from secl.metrics.dinco import COUNTED
from secl.prompts.parsing import read_answer
from secl.question import Form, Question

BEAMS = 5


def beam_answers(asker: Asker, question: Question) -> list[str]:
    """Up to `BEAMS` different answers to an open question, the most probable first."""
    start = Draft.answer(asker.prompting.answer(question), question.form)
    drafts, tokens = asker.learner.writer.beams(start, BEAMS)
    texts = [asker.answer_in(draft) for draft in drafts]
    asker.meter.spend("comparing", tokens)
    answers = [answer for text in texts if (answer := read_answer(text, question.form)) is not None]
    return list(first_by_key(answers, question.form).values())


def gather(
    asker: Asker,
    nli: NliModel | None,
    question: Question,
    beams: Sequence[str],
    own: str | None,
    samples: Sequence[str | None],
) -> DincoEvidence:
    """Verify beams and the model's own answer, and compare them with each other and with the samples.

    Args:
        nli: compares answers; None asks the frozen model itself.
        beams: one or more, all different, the most probable first.
        own: the model's own answer, which may be a beam; None if it could not be read.
        samples: more answers, of which the first `COUNTED` count.
    """
    form, counted = question.form, samples[:COUNTED]
    answers, rated = [*beams], [0]  # only those that may be reported are compared with the samples
    if own is not None:
        keys = [answer_key(answer, form) for answer in beams]
        key = answer_key(own, form)
        if key not in keys:
            answers, keys = [*answers, own], [*keys, key]
        rated = sorted({0, keys.index(key)})
    texts = [question.text_of(answer) for answer in answers]
    bundle = Bundle(verdicts=[asker.prompting.verification(question, text) for text in texts])
    (reading,) = asker.backend.read([bundle])
    asker.meter.spend("comparing", reading.tokens)
    p_yes = asker.readout.p_yes(reading, bundle.ends("scoring"))
    # Samples that count as the same answer get the same text, that of a candidate if there is one.
    distinct = first_by_key([*answers, *(sample for sample in counted if sample is not None)], form)
    text_by_key = {key: question.text_of(answer) for key, answer in distinct.items()}
    strangers = dict.fromkeys(text for text in text_by_key.values() if text not in texts)
    pairs: list[Pair] = [(a, b) for a in texts for b in texts if a != b]
    pairs += [pair for i in rated for b in strangers for pair in ((texts[i], b), (b, texts[i]))]
    classify = partial(ask_whether_one_implies, asker) if nli is None else nli.classify
    scores = dict(zip(pairs, classify(question, pairs), strict=True)) if pairs else {}
    scores |= {(text, text): (1.0, 0.0) for text in texts}

    def agreement(i: int, sample: str | None) -> float:
        if sample is None:
            return 0.0
        same = text_by_key[answer_key(sample, form)]
        return (scores[texts[i], same][0] + scores[same, texts[i]][0]) / 2

    return DincoEvidence(
        candidates=tuple(texts),
        answers=tuple(answers),
        beams=len(beams),
        p_yes=p_yes,
        entails=tuple(tuple(scores[a, b][0] for b in texts) for a in texts),
        contradicts=tuple(tuple(scores[a, b][1] for b in texts) for a in texts),
        agreement=tuple(
            tuple(agreement(i, sample) for sample in counted) if i in rated else () for i in range(len(answers))
        ),
        nli_name="self" if nli is None else nli.name,
    )


def ask_whether_one_implies(asker: Asker, question: Question, pairs: Sequence[Pair]) -> list[tuple[float, float]]:
    """P(entails) and P(contradicts) for each pair, of the frozen model itself, by three option letters."""
    prompts = {pair: asker.prompting.entailment(question, *pair) for pair in sorted(set(pairs))}
    # Pairs with a common premise share most of their prompt, so they are bundled.
    groups = [list(group) for _, group in groupby(prompts, key=lambda pair: pair[0])]
    readings = asker.backend.read([Bundle(verdicts=[prompts[pair] for pair in group]) for group in groups])
    scores: dict[Pair, tuple[float, float]] = {}
    for group, reading in zip(groups, readings, strict=True):
        letters = asker.readout.options(reading, reading.bundle.ends("scoring"), 3)
        scores |= {pair: (p[0], p[2]) for pair, p in zip(group, letters, strict=True)}
        asker.meter.spend("comparing", reading.tokens)
    return [scores[pair] for pair in pairs]


def first_by_key(answers: Sequence[str], form: Form) -> dict[object, str]:
    """Return the answers without repetitions, the first of each, in order.

    >>> list(first_by_key(["Paris", "London", "Paris.", "Rome"], "short").values())
    ['Paris', 'London', 'Rome']
    """
    first: dict[object, str] = {}
    for answer in answers:
        first.setdefault(answer_key(answer, form), answer)
    return first
