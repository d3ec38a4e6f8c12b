"""The driver of models that read and write token ids: a network in this process, or vLLM's token API.

The driver advances a window of flows together. It first writes what any of them wants written, each kind of text as one
batch. It then reads whatever is left: all requests of one question share a pass, and so do several questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TypeVar

from secl.backends.base import Bundle, Engine, Position, Reading, Statistics
from secl.backends.generation import Generation, TextRules
from secl.backends.prompting import Prompting
from secl.backends.readout import Readout
from secl.evidence import LetterOrder, Likelihood, Thought
from secl.facts.tokens import place_tokens
from secl.flow.further import FREE_TOKENS, OWN, PROGRAM_TOKENS, list_tokens, question_seed
from secl.flow.requests import Choose, FlowRun, Judge, Read, ReadWithin, Request, StateConfidence, Stated, Text, Write
from secl.prompts.programs import FENCE, OPENING
from secl.prompts.templates import in_order
from secl.question import Question
from secl.records import Reply
from secl.writing import Chunk, Token

CONTINUED_TOKENS = 10
"""Maximum number of tokens of a continuation: a value, and what shows its end."""

R = TypeVar("R", Judge, Choose, Read, ReadWithin, StateConfidence)

FEW = 2
"""Number of questions whose spare texts are written, too: for so few, another text in a batch takes hardly any time."""


@dataclass
class Answer:
    """An answer as one version of the model reads it.

    Attributes:
        text: the whole open answer; None for the letter of an option.
        generation: the model's own generation of the answer or of the thought before it; None for an answer from
            elsewhere.
        counts: number of tokens of prompt and answer.
        version: version of the weights; 0 is the frozen model.
        tokens: tokens through the network to write and read the answer.
        reply: the answer with the confidence that this version states.
        statistics: statistics of an open answer; None for an option.
    """

    question: Question
    text: str | None
    generation: Generation | None
    thought: Thought | None
    reading: Reading
    tokens: float
    counts: tuple[int, int]
    version: int = 0
    statistics: Statistics | None = None
    reply: Reply = field(default=None, repr=False)  # type: ignore[assignment]  # `TokenDriver.reply` needs the rest

    @property
    def written(self) -> bool:
        """Whether the model itself wrote an open answer."""
        return self.text is not None and self.generation is not None and not self.generation.free

    def digit_position(self, reply: Reply) -> Position:
        """Return the position at which the confidence of a reply is stated."""
        positions = self.reading.bundle.positions
        return positions[1 + self.question.letters.index(reply.text)] if self.text is None else positions[-1]


@dataclass
class Progress:
    """What the driver keeps of one run.

    Attributes:
        generation: generation of the answer, or of the thought before a letter.
        thoughts: written thoughts, by the number of the request that they belong to.
        prompts: prompts of samples that have been counted.
    """

    generation: Generation | None = None
    thoughts: dict[int, Generation] = field(default_factory=dict)
    prompts: set[tuple[int, ...]] = field(default_factory=set)


@dataclass(frozen=True)
class TokenDriver:
    """A `secl.flow.requests.Driver` on an engine that reads and writes token ids.

    Attributes:
        rules: decode texts, and tell when they end.
        seed: seed of all samples.
    """

    engine: Engine
    prompting: Prompting
    readout: Readout
    rules: TextRules
    seed: int
    always_thinks = False
    likelihoods = True

    @property
    def thinks(self) -> bool:
        return self.prompting.thinks

    @property
    def letters(self) -> int:
        return len(self.readout.token_ids.letters)

    @property
    def distractors(self) -> int:
        return self.prompting.distractors

    def fits(self, question: Question) -> bool:
        (prompt,) = self.prompting.orders(question, [range(len(question.options))])
        return len(prompt) <= self.engine.limit

    def text_of(self, question: Question, written: str | Chunk, *, rated: bool = False) -> Text:
        text = self.prompting.write_given(question, str(written), behind_thought=self.thinks and not rated)
        if rated:
            return Text(text=text, form=question.form)
        thought = written.whole_thought if isinstance(written, Chunk) and self.thinks else None
        generation = (
            written.generation if isinstance(written, Chunk) and isinstance(written.generation, Generation) else None
        )
        if question.free and generation is None:
            before = None if thought is None else thought.text
            generation = Generation(self.prompting.answer(question, before), "text", 0, free=True)
        complete = not isinstance(written, Chunk) or written.finish != "length"
        return Text(text=text, form=question.form, thought=thought, complete=complete, state=generation)

    def draw_letters(self, question: Question, log_p: Sequence[float], count: int) -> tuple[str | None, ...]:
        seed = question_seed(self.seed, question, "samples")
        drawn = self.readout.draw(log_p, count, seed, self.prompting.top_p)
        return tuple(question.letters[number] for number in drawn)

    def run(self, runs: Sequence[FlowRun]) -> None:
        for run in runs:
            run.state = Progress(None if run.text is None else run.text.state)
        going = [run for run in runs if run.requests]
        while going:
            self._think(going)
            writing = [run for run in going if isinstance(run.requests[0], Write)]
            # The others wait until all texts of the window are written, so that they are read together.
            if writing:
                self._write(writing)
            else:
                self._read(going)
            going = [run for run in going if run.requests]
        for run in runs:
            for generation in (run.state.generation, *run.state.thoughts.values()):
                if generation is not None:
                    generation.begun = None  # keys and values take gigabytes

    def think(self, thoughts: Sequence[Generation]) -> None:
        """Write thoughts, and set the `Generation.thought` of each generation."""
        self.engine.write([thoughts])
        for generation in thoughts:
            generation.thought = self.rules.thought(generation)

    def drawn(self, generation: Generation, question: Question, purpose: str) -> Generation:
        """Return a copy of a generation that samples its tokens, with a seed for this purpose of this question."""
        return replace(generation, seed=question_seed(self.seed, question, purpose), top_p=self.prompting.top_p)

    def start_answer(self, question: Question, thinking: Generation | None) -> Generation:
        """Return the generation of a greedy answer to an open question, after the thought in `thinking`, if any."""
        if thinking is None or thinking.thought is None:
            return self.prompting.start_answer(question)
        generation = self.prompting.start_answer(question, thinking.thought.text)
        return replace(generation, thought=thinking.thought, begun=thinking.begun)

    def _think(self, runs: Iterable[FlowRun]) -> None:
        """Write the thoughts before replies that have none yet, greedy thoughts first."""
        wanted = [
            (run, number, draw)
            for run in runs
            for number, request in enumerate(run.requests)
            if (draw := _draw_of(request)) is not None and number not in run.state.thoughts
        ]
        wanted.sort(key=lambda each: each[2] >= 0)
        for run, number, draw in wanted:
            run.state.thoughts[number] = self._start_thought(run.requests[number], draw)
        self.think([run.state.thoughts[number] for run, number, _ in wanted])
        _count_steps((run, run.state.thoughts[number]) for run, number, _ in wanted)
        for run, number, draw in wanted:
            if draw < 0:
                run.thought = run.state.thoughts[number].thought

    def _start_thought(self, request: Request, draw: int) -> Generation:
        question = in_order(request.question, request.order) if isinstance(request, Choose) else request.question
        generation = self.prompting.thought(question, self.engine.limit)
        return generation if draw < 0 else self.drawn(generation, request.question, f"thought {draw}")

    def _write(self, runs: Sequence[FlowRun]) -> None:
        generations = {
            (run, number): self._start_text(run, number, request)
            for run in runs
            for number, request in enumerate(run.requests)
            if isinstance(request, Write) and not (request.spare and len(runs) > FEW)
        }
        lists = [generation for generation in generations.values() if generation.lines is not None]
        # Lists are longer than answers, so they form a second batch.
        self.engine.write([[generation for generation in generations.values() if generation.lines is None], lists])
        for lines in (False, True):
            _count_steps((run, each) for (run, _), each in generations.items() if (each.lines is not None) is lines)
        self._write_again(generations)
        for run in runs:
            texts: list[Text | None] = []
            for number, request in enumerate(run.requests):
                generation = generations.get((run, number))
                if isinstance(request, Write) and generation is not None:
                    self._pay(run, request, generation)
                texts.append(None if generation is None else self._text(request, generation))
            run.state.thoughts.clear()
            run.send(texts)

    def _start_text(self, run: FlowRun, number: int, request: Write) -> Generation:
        """Return the unwritten generation of a text."""
        question, progress = request.question, run.state
        if request.what == "program":
            return Generation(self.prompting.program(question), "text", PROGRAM_TOKENS, stop=(FENCE,))
        if request.what == "continuation":
            prompt = self.prompting.continuation(question, request.begun)
            return Generation(prompt, "text", CONTINUED_TOKENS)
        if request.what == "list":
            listed = self.prompting.listed
            prompt = self.prompting.answer_list(question)
            generation = Generation(prompt, question.form, list_tokens(question.form, listed), lines=listed)
            return generation if request.draw is None else self.drawn(generation, question, str(request.draw))
        thought = progress.thoughts.get(number)
        generation = self.start_answer(question, thought)
        if request.draw is None:
            progress.generation = generation
            return generation
        if thought is None and progress.generation is not None:
            generation.begun = progress.generation.begun
        if request.draw != OWN:
            generation = self.drawn(generation, question, f"sample {request.draw}")
        return (
            replace(generation, limit=min(generation.limit, FREE_TOKENS), brief=True) if question.free else generation
        )

    def _write_again(self, generations: dict[tuple[FlowRun, int], Generation]) -> None:
        """Write an answer again without a thought if the answer after the thought was empty."""
        empty = {}
        for (run, number), generation in generations.items():
            thought = generation.thought
            if (
                generation.seed is None
                and thought is not None
                and thought.text
                and not self.rules.answer(generation).strip()
            ):
                run.thought = replace(thought, text="")
                again = self.start_answer(
                    run.requests[number].question, replace(generation, thought=run.thought, begun=None)
                )
                empty[run, number] = run.state.generation = again
        self.engine.write([[*empty.values()]])
        _count_steps((run, generation) for (run, _), generation in empty.items())
        generations.update(empty)

    def _pay(self, run: FlowRun, request: Write, generation: Generation) -> None:
        """Count the tokens of a written text. A sample's prompt counts once, and not if the answer has the same."""
        progress = run.state
        if request.what == "list":
            run.pay("scoring", len(generation.prompt) + generation.tokens)
        elif request.what == "answer" and request.draw is None:
            run.pay("answering", generation.tokens)
        else:
            prompt = tuple(generation.prompt)
            known = prompt in progress.prompts or (
                progress.generation is not None and prompt == (*progress.generation.prompt,)
            )
            run.pay("sampling", generation.tokens + (0 if known else len(prompt)))
            progress.prompts.add(prompt)
        if progress.generation is not None and progress.generation.begun is None and generation.thought is None:
            progress.generation.begun = generation.begun if request.what == "answer" else None

    def _text(self, request: Request, generation: Generation) -> Text:
        what = request.what if isinstance(request, Write) else "answer"
        if what in ("list", "continuation"):
            text = self.rules.text(generation)
        elif what == "program":
            text = OPENING + self.rules.text(generation)
        else:
            text = self.rules.answer(generation)
        return Text(
            text=text,
            form=generation.form,
            # ln P of an answer excludes the end token.
            log_p=sum(generation.log_p[:-1]) if generation.log_p else None,
            thought=generation.thought,
            complete=len(generation.written) < generation.limit,
            state=generation,
        )

    def _read(self, runs: Sequence[FlowRun]) -> None:
        """Read the requests of each run in one bundle, and letters after further thoughts in bundles of their own."""
        bundles = {run: bundle for run in runs if (bundle := self._bundle(run)).sequences}
        thoughts = {
            (run, number): self.choices(in_order(request.question, request.order), run.state.thoughts[number])
            for run in runs
            for number, request in enumerate(run.requests)
            if isinstance(request, Choose) and request.draw is not None
        }
        readings = self.engine.read([*bundles.values(), *thoughts.values()])
        whole = dict(zip(bundles, readings, strict=False))
        further = dict(zip(thoughts, readings[len(bundles) :], strict=True))
        groups = [(run, *group) for run in runs for group in self._groups(run, whole.get(run), further)]
        results: dict[FlowRun, dict[int, object]] = {run: {} for run in runs}
        for (run, numbers, _), found in zip(groups, self.engine.map(lambda group: group[2](), groups), strict=True):
            results[run] |= zip(numbers, found, strict=True)
        for run, reading in whole.items():
            for purpose, tokens in reading.bundle.tokens.items():
                run.pay(purpose, tokens)
        for (run, _), reading in further.items():
            run.pay("reordering", reading.tokens)
        for run in runs:
            for generation in run.state.thoughts.values():
                generation.begun = None
            run.state.thoughts.clear()
            run.send([results[run][number] for number in range(len(run.requests))])

    def choices(self, question: Question, thinking: Generation | None) -> Bundle:
        """Return the bundle of the letters, with the confidence after each, behind the thought in `thinking`."""
        thought = None if thinking is None or thinking.thought is None else thinking.thought.text
        return replace(self.prompting.choices(question, thought), generation=thinking)

    def read_text(
        self, question: Question, text: str, generation: Generation | None, thought: Thought | None
    ) -> Bundle:
        """Return the bundle of an open answer and its confidence."""
        return self.prompting.bundle_answer(question, text, generation, None if thought is None else thought.text)

    def _bundle(self, run: FlowRun) -> Bundle:
        """Return the bundle of all requests of a run, except letters after further thoughts."""
        prompting, bundle, question = self.prompting, Bundle(), run.requests[0].question
        for number, request in enumerate(run.requests):
            if isinstance(request, StateConfidence) and isinstance(request.answer, Text):
                text = request.answer
                run.state.generation = text.state
                generation = text.state or run.state.thoughts.get(number)
                bundle = self.read_text(question, text.text, generation, run.thought)
            elif isinstance(request, StateConfidence):
                run.state.generation = run.state.thoughts.get(number)
                bundle = self.choices(question, run.state.generation)
        read = [each.option for each in _shared(run, Read).values()]
        spans = prompting.spans(question, read) if read else []
        for each in _shared(run, ReadWithin).values():
            whole, start, end = each.text, each.start, each.end
            spans.append(prompting.span(each.question, whole[:start], whole[start:end], whole[end:]))
        chosen = _shared(run, Choose).values()
        return replace(
            bundle,
            verdicts=prompting.verdicts(question, [each.answer for each in _shared(run, Judge).values()]),
            orders=[prompt for each in chosen for prompt in prompting.orders(each.question, [each.order])],
            spans=spans,
        )

    def _groups(
        self, run: FlowRun, reading: Reading | None, further: dict[tuple[FlowRun, int], Reading]
    ) -> list[tuple[list[int], Callable[[], Sequence[object]]]]:
        """Return the numbers of a run's requests in groups, each with a function that reads the results of the group.

        Groups do not depend on each other, so an engine may read them in parallel.
        """
        groups: list[tuple[list[int], Callable[[], Sequence[object]]]] = []
        if reading is not None:
            groups.append(([*_shared(run, Judge)], partial(self.readout.verdicts, reading)))
            groups.append(([*_shared(run, Choose)], partial(self._orders, run, reading)))
            groups.append(([*_shared(run, Read)], partial(_likelihoods, reading)))
            groups.append(([*_shared(run, ReadWithin)], reading.likelihoods))
            stated = _shared(run, StateConfidence)
            groups += [([number], partial(self._stated, run, each, reading)) for number, each in stated.items()]
        for number, request in enumerate(run.requests):
            if isinstance(request, Choose) and request.draw is not None:
                thought = run.state.thoughts[number].thought
                groups.append(([number], partial(self._letters, request, thought, further[run, number])))
        return [group for group in groups if group[0]]

    def _orders(self, run: FlowRun, reading: Reading) -> list[LetterOrder]:
        chosen = _shared(run, Choose).values()
        rows = self.readout.letters(reading, [each.question for each in chosen])
        return [
            LetterOrder(order=each.order, log_p=tuple(row[each.order.index(i)] for i in range(len(each.order))))
            for each, row in zip(chosen, rows, strict=True)
        ]

    def _letters(self, request: Choose, thought: Thought | None, reading: Reading) -> list[LetterOrder]:
        """Return the letters after a further thought, in the order of the question's options."""
        order = request.order
        reply = self.readout.choice(in_order(request.question, order), reading, 0)
        log_p = tuple(reply.option_log_p[order.index(number)] for number in range(len(order)))
        return [LetterOrder(order=order, log_p=log_p, thought=thought, bins=reply.bins)]

    def _stated(self, run: FlowRun, request: StateConfidence, reading: Reading) -> list[Stated]:
        generation, text, tokens = run.state.generation, None, reading.tokens
        if isinstance(request.answer, Text):
            text = request.answer.text
        positions = reading.bundle.positions
        counts = positions[0][1], 1 if text is None else len(positions) - 2
        answer = Answer(request.question, text, generation, run.thought, reading, tokens, counts)
        if answer.written and generation is not None:
            answer.tokens += generation.tokens
            answer.counts = len(generation.prompt), len(generation.written)
        answer.reply = self.reply(answer, request.answer if isinstance(request.answer, str) else None)
        placed = None
        if answer.statistics is not None and request.question.free and answer.reply.answer:
            placed = place_tokens(self._tokens(answer.reading.bundle, answer.statistics), answer.reply.answer)
        plain_tokens = float(len(reading.bundle.answers[0]))
        return [Stated(reply=answer.reply, plain_tokens=plain_tokens, tokens=placed, state=answer)]

    def _tokens(self, bundle: Bundle, statistics: Statistics) -> list[Token]:
        """Return the tokens of the text in a bundle, with their probabilities."""
        start, log_p = bundle.positions[0][1], statistics.log_p
        before, own = bundle.answers[0][:start], bundle.answers[0][start : start + len(log_p)]
        decode = cache(lambda token: self.rules.tokenizer.decode([token]))
        return [
            Token(piece, value, tuple((decode(token), other) for token, other in top))
            for piece, value, top in zip(self.rules.pieces(before, own), log_p, statistics.top, strict=True)
        ]

    def reply(self, answer: Answer, letter: str | None = None) -> Reply:
        """Return the reply in an answer; with options, the most probable letter, or a given letter."""
        if answer.text is None:
            reply = self.readout.choice(answer.question, answer.reading, answer.version, letter)
        else:
            reply, answer.statistics = self.readout.open(answer.question, answer.text, answer.reading, answer.version)
        prompt, written = answer.counts
        return replace(reply, prompt_tokens=prompt, answer_tokens=written, thought=answer.thought)


def _count_steps(batch: Iterable[tuple[FlowRun, Generation]]) -> None:
    """Add the decoding steps of a batch to each run: texts of one run share their steps, so the longest one counts."""
    longest: dict[FlowRun, int] = {}
    for run, generation in batch:
        longest[run] = max(longest.get(run, 0), generation.decoding_steps)
    for run, steps in longest.items():
        run.steps += steps


def _shared(run: FlowRun, kind: type[R]) -> dict[int, R]:
    """Return the requests of one kind that share the bundle of a run, by their numbers."""
    return {
        number: each
        for number, each in enumerate(run.requests)
        if isinstance(each, kind) and not (isinstance(each, Choose) and each.draw is not None)
    }


def _draw_of(request: Request) -> int | None:
    """Return the number of the sampled thought before a reply, -1 for a greedy thought, and None without a thought."""
    if isinstance(request, Choose):
        return request.draw
    if isinstance(request, Write | StateConfidence) and request.think:
        draw = request.draw if isinstance(request, Write) else None
        return -1 if draw is None else draw
    return None


def _likelihoods(reading: Reading) -> list[Likelihood]:
    """Return the likelihoods of the bundle's texts, which are first given the question and then alone."""
    values, spans = reading.likelihoods(), reading.bundle.spans
    half = len(spans) // 2
    return [
        Likelihood(given=given, alone=alone, tokens=len(span.tokens) - span.start)
        for given, alone, span in zip(values[:half], values[half:], spans, strict=False)
    ]
