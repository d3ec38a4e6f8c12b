"""A chat model whose answers come with the probability that they are correct."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from inspect import isfunction
from typing import TYPE_CHECKING, Any, Self, TypeVar

from secl.calibrator import Calibrator
from secl.data.question_files import read_given, read_rows, texts_in
from secl.display import Shown, counted, tracked
from secl.errors import ParameterError, SeclError
from secl.evaluation.acceptance import Advice, Judgement, advise, answers_of, judgement_of, judgements_of
from secl.fields.calls import Calls, WritesCalls, weigh_calls
from secl.fields.extraction import Extraction, request_of, weigh_objects
from secl.fields.schema import Schema
from secl.fields.tools import CallRequest
from secl.labels.label import Label, label_of, moment_of
from secl.model import learner_of
from secl.question import Form, GivenAnswer, Question
from secl.records import Record, answers_in
from secl.runs.extracting import writer_of
from secl.telemetry import mark_span

if TYPE_CHECKING:
    from pydantic import BaseModel

    from secl.data.tables import Rows

Rated = TypeVar("Rated", Record, Extraction, Calls)


class CalibratedModel(Shown):
    """A chat model whose answers come with the probability that they are correct; `secl.load` makes one.

    `calibrator`, a `secl.learning.Calibrator`, asks the model and has the state of the stream of questions.

    >>> import secl
    >>> model = secl.load(secl.testing.ScriptedModel())
    >>> answer = model.ask("What is the capital of Peru?", options=["Quito", "La Paz", "Lima", "Santiago"])
    >>> answer.text == answer.candidates[0][0], answer.low <= answer.confidence <= answer.high
    (True, True)
    """

    def __init__(self, calibrator: Calibrator) -> None:
        self.calibrator = calibrator
        self._judgements: list[Judgement] = []
        self._labels: list[Label] = []
        self._turns = ThreadPoolExecutor(1, "secl")  # one thread, because `aask` takes one question at a time

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the model's connections and threads. A transformers model passed to `secl.load` stays unchanged."""
        self._turns.shutdown(wait=False)
        self.calibrator.model.close()

    def _facts(self) -> dict[str, object]:
        model = self.calibrator.model
        learning = {"version": learner_of(model).version} if self.calibrator.learns else {}
        return {"name": model.name, "learns": self.calibrator.learns, **learning, "asked": len(self._judgements)}

    @property
    def accept(self) -> float | None:
        """Lowest confidence at which an answer is accepted, in [0, 1], or None. May change between questions.

        You may set a confidence or an `Advice`. Later labels move the confidences and `accept` together, so that they
        change no decision. In a domain with a shift of its own, `Record.accept` differs from this value.
        """
        return self.calibrator.accept

    @accept.setter
    def accept(self, accept: float | Advice | None) -> None:
        if isinstance(accept, Advice):
            self.calibrator.threshold = None if accept.threshold is None else accept.threshold.uncalibrated
        else:
            self.calibrator.accept = accept

    def ask(
        self,
        question: Question | str,
        *,
        options: Sequence[str] = (),
        form: Form | None = None,
        context: str = "",
        system: str = "",
        history: Sequence[object] = (),
    ) -> Record:
        """Ask one question and return the answer with its confidence. The method "secl" learns after the answer.

        Args:
            question: a text, or a `Question` with its own options, context, system text and history.
            options: 2 to 26 answers to choose from; empty for an open question.
            form: form of the answer to an open question: "short" (a few words, by default), "sentence", "number", or
                "text" for a text as in a chat, whose facts have confidences of their own (`Record.facts`).
            context: a passage to answer from.
            system: the system text; by default the model's own system text.
            history: earlier turns, each a `Turn`, a pair (role, text), or {"role": ..., "content": ...}.

        Raises:
            QuestionError: the arguments do not form a valid question, or the question is too long for the model.
        """
        asked = Question.of(question, options=options, form=form, context=context, system=system, history=history)
        return _marked(self._note(self.calibrator.ask(asked)))

    async def aask(
        self,
        question: Question | str,
        *,
        options: Sequence[str] = (),
        form: Form | None = None,
        context: str = "",
        system: str = "",
        history: Sequence[object] = (),
    ) -> Record:
        """Ask one question in a thread, while the event loop goes on; see `ask`.

        Questions wait for each other, also after a cancellation, which does not stop the question in progress. To
        answer many at once, use `ask_all` or a server.

        >>> import asyncio, secl
        >>> model = secl.load(secl.testing.ScriptedModel())
        >>> asyncio.run(model.aask("Capital of Peru?", options=["Lima", "Cusco"])).text
        'Lima'
        """
        parts: dict[str, Any] = {"options": options, "form": form, "context": context, "system": system}
        call = partial(copy_context().run, partial(self.ask, question, history=history, **parts))
        return await asyncio.get_running_loop().run_in_executor(self._turns, call)

    def ask_all(
        self,
        rows: Rows,
        *,
        options: Sequence[str] = (),
        template: str | None = None,
        columns: Mapping[str, str] | None = None,
        progress: bool = False,
    ) -> Iterator[Record]:
        """Ask many questions and yield each answer as soon as it is ready. The model reads up to 16 questions at once.

        Args:
            rows: texts, `Question`s, mappings such as {"question": ..., "options": [...]}, a DataFrame, or the path of
                a file (`secl.read_rows`). secl reads an iterator to its end before it asks the first question.
            options: options of every row, for classification.
            template: text with names of columns, such as "Which team should handle this? {subject}: {body}".
            columns: your names of columns: {"question": "prompt"} takes the question from the column "prompt".
            progress: whether to show a progress bar.

        Raises:
            DataError: a row has no question; the message names the row.
            QuestionError: a question is too long for the model.
        """
        file = read_rows(rows, columns=columns, options=options, template=template)
        records = map(self._note, self.calibrator.run(file.questions))
        yield from tracked("asking", records, len(file.questions), progress)

    def extract(
        self,
        document: str,
        schema: type[BaseModel] | Mapping[str, object],
        *,
        context: str = "",
        instruction: str = "",
    ) -> Extraction:
        """Extract the fields of a document as a JSON object, each with the probability that it is correct.

        The object satisfies the schema. With every method, the confidence of a field comes from the posterior
        (docs/fields.md). Each field has a record that you can label. A local model needs the extra "fields".

        Args:
            document: the text to read.
            schema: a pydantic class, a JSON Schema, or a mapping of names to descriptions (docs/fields.md).
            context: a passage that the model reads before the document.
            instruction: rules for the values, in addition to the schema's descriptions.

        Raises:
            ParameterError: the schema is invalid, is recursive or has no fields; llguidance is not installed; or the
                model cannot write objects.
            QuestionError: the document is empty or too long, or the pydantic class rejects the object.
            ModelError: the model did not finish the object, or a server returned no object that fits the schema.
        """
        (found,) = self._extract([document], schema, context, instruction)
        return _marked(found)

    def extract_all(
        self,
        rows: Rows,
        schema: type[BaseModel] | Mapping[str, object],
        *,
        text: str = "text",
        context: str = "",
        instruction: str = "",
        progress: bool = False,
    ) -> Iterator[Extraction]:
        """Extract the fields of many documents, up to 8 at once, and yield each object as soon as it is ready.

        Args:
            rows: texts, mappings such as {"text": ...}, a DataFrame, or a path: a table with a column of texts, a text
                file, or a folder of text files. secl reads an iterator to its end before it extracts the first object.
            schema, context, instruction: as for `extract`.
            text: name of the column with the documents.
            progress: whether to show a progress bar.

        Raises:
            DataError: a row has no document. secl checks all rows before the model reads the first document.
            ParameterError, QuestionError, ModelError: as for `extract`, after the objects of earlier documents.
        """
        documents = texts_in(rows, text)
        found = self._extract(documents, schema, context, instruction)
        yield from tracked("extracting", found, len(documents), progress)

    def _extract(
        self, documents: Sequence[str], schema: object, context: str, instruction: str
    ) -> Iterator[Extraction]:
        fields = Schema.of(schema)
        asked = [request_of(document, fields, context=context, instruction=instruction) for document in documents]
        writer = writer_of(self.calibrator.model, asked)
        for found in weigh_objects(writer, asked, self.calibrator.weigh, lambda: self.accept):
            if isinstance(found, SeclError):
                raise found
            for record in found.fields.values():
                self._note(record)
            yield found

    def call(
        self,
        request: str | Sequence[object],
        tools: Sequence[object],
        *,
        system: str = "",
        history: Sequence[object] = (),
        context: str = "",
        choice: str = "auto",
        parallel: bool = True,
    ) -> Calls:
        """Let the model call tools, and return its calls, each with the probability that it is correct.

        The model may also reply with a text. A record of the domain "tool" rates each choice of a tool, or of no tool.
        A record of a domain such as "book_room.date" rates each argument. Needs a local model and the extra "fields".

        Args:
            request: the user's message, or a whole conversation as messages. The last is a user's message or the
                result of a call.
            tools: Python functions with type hints and Google docstrings, pydantic classes, or tools in OpenAI's form.
            system, history, context: as for `ask`.
            choice: "auto" (the model may call tools), "required" (the model must), "none" (the model must not), or the
                name of the tool to call.
            parallel: whether a reply may have several calls.

        Raises:
            ParameterError: a tool is not usable, no tool has the name in `choice`, llguidance is not installed, or the
                model runs on a server.
            QuestionError: `request` and `history` do not form a conversation, the conversation is too long, or a
                pydantic class rejects the arguments of a call.
            ModelError: the model did not finish a call.
        """
        model = self.calibrator.model
        if not isinstance(model, WritesCalls):
            raise ParameterError(
                f"the model {model.name!r} is not local, and only local models can call tools; load a model by its "
                "hub id, folder or GGUF file."
            )
        if isinstance(tools, list | tuple) and any(map(isfunction, tools)):
            from secl.backends.local.calls import definition_of  # transformers takes seconds to import

            tools = [definition_of(tool) if isfunction(tool) else tool for tool in tools]
        parts: dict[str, Any] = {"system": system, "history": history, "context": context}
        asked = CallRequest.of(request, tools, choice=choice, parallel=parallel, **parts)
        for remark in (each for tool in asked.tools for each in tool.remarks_on(model)):
            warnings.warn(remark, stacklevel=2)
        (calls,) = weigh_calls(model, [asked], self.calibrator.weigh, lambda: self.accept)
        if isinstance(calls, SeclError):
            raise calls
        for record in calls.records:
            self._note(record)
        return _marked(calls)

    def score(
        self,
        question: Question | str,
        answer: str,
        *,
        options: Sequence[str] = (),
        rivals: Sequence[str] = (),
        form: Form | None = None,
        context: str = "",
        system: str = "",
        history: Sequence[object] = (),
    ) -> Record:
        """Return the confidence of an answer from any source, as a record of the kind "given".

        The record's `reply` has the confidence that the model states for this answer. `secl` compares an open answer
        with the model's own answer and with samples.

        Args:
            question, options, form, context, system, history: as for `ask`.
            answer: a text; with options, a letter, the text of an option, or both.
            rivals: other answers to an open question, which compete with this answer, too.

        Raises:
            QuestionError: the answer is empty, too long, or none of the options.
        """
        asked = Question.of(question, options=options, form=form, context=context, system=system, history=history)
        (record,) = self.calibrator.rate_stream([GivenAnswer(asked, answer, tuple(rivals))])
        return _marked(self._note(record))

    def score_all(
        self, rows: Rows | Iterable[GivenAnswer | tuple[object, ...]], *, progress: bool = False
    ) -> Iterator[Record]:
        """Yield a record with the confidence of each answer. The model rates up to 16 answers at once.

        Args:
            rows: pairs (question, answer), `GivenAnswer`s, mappings such as {"question": ..., "answer": ...}, a
                DataFrame, or the path of a file (`secl.read_rows`).
            progress: whether to show a progress bar.

        Raises:
            DataError, QuestionError: a row has no usable answer. secl checks all rows before it rates the first.

        >>> import secl
        >>> rows = [("Capital of Peru?", "Lima"), ("And of Chile?", "Rio")]
        >>> [record.text for record in secl.load(secl.testing.ScriptedModel()).score_all(rows)]
        ['Lima', 'Rio']
        """
        given = read_given(list(rows) if isinstance(rows, Iterator) else rows)
        yield from tracked("rating", map(self._note, self.calibrator.rate_stream(given)), len(given), progress)

    def label(self, answer: Record, correct: bool | None, *, chance: float | None, skipped: bool = False) -> Label:
        """Label an answer. Labels calibrate the confidences of later answers; they do not change the record.

        Args:
            answer: a record that this object returned.
            correct: whether `answer.text` is correct; None takes back earlier labels of this answer.
            chance: 1 if you drew the answer at random, with equal chances for all answers; None if you or your users
                chose the answer, so that `threshold` guarantees no risk. If the chances differ, the probability of
                this answer, in [1e-4, 1].
            skipped: whether a reviewer saw the answer and gave no judgement; `correct` is then None.

        Raises:
            ParameterError: a chance outside [1e-4, 1], a judgement of a skipped answer, or a text with facts.

        >>> import secl
        >>> model = secl.load(secl.testing.ScriptedModel())
        >>> answer = model.ask("Capital of Peru?")
        >>> label = model.label(answer, False, chance=1)
        >>> model.ask("Capital of Peru?").confidence < answer.confidence
        True
        """
        if answer.parts is not None:
            raise ParameterError(
                f"this answer is a text with {counted(len(answer.parts), 'fact')}; label its facts (answer.facts)."
            )
        (label,) = self._take([label_of(answer, correct, chance=chance, skipped=skipped)])
        return label

    def label_references(self, answers: Iterable[Record], *, chance: float | None) -> int:
        """Label answers by the references of their questions, and return the number of labels.

        Args:
            answers: records that this object returned; those without a reference get no label.
            chance: as for `label`: 1 if you drew the questions with references at random.

        >>> import secl
        >>> model = secl.load(secl.testing.ScriptedModel())
        >>> rows = [{"question": "Capital of Peru?", "reference": "Lima"}]
        >>> model.label_references(model.ask_all(rows), chance=None)
        1
        """
        rated = answers_in(answers)
        graded = [(each, right) for each in rated if (right := judgement_of(each).reference) is not None]
        return len(self._take([label_of(*each, source="reference", chance=chance) for each in graded]))

    def _take(self, labels: Sequence[Label]) -> list[Label]:
        """Number labels as the next entries of the log, calibrate by them, and return them."""
        until = self.calibrator.state.labels.until
        taken = [replace(label, number=number) for number, label in enumerate(labels, until + 1)]
        self.calibrator.take_labels(taken)
        self._labels += taken
        return taken

    def threshold(
        self, risk: float, certainty: float = 0.9, *, since: str | None = None, anytime: bool = False
    ) -> Advice:
        """Return the threshold that accepts the most answers while at most the share `risk` of them is wrong.

        secl computes the threshold from the answers that this object has returned. If the labelled answers were drawn
        at random, the threshold keeps the risk with this certainty. Without labels, the risk is an estimate. To use the
        threshold, set `accept` to the result. `Advice.accepts` and `recalibrate` apply it to earlier answers.

        Args:
            risk: largest share of wrong answers among accepted answers, in (0, 1).
            certainty: probability that the guarantee holds, in (0, 1).
            since: use labels of the last days ("30d"), or from a date on ("2026-03-01", UTC); None for all labels.
            anytime: whether the guarantee holds however often you call this method while you label.

        Raises:
            ParameterError: no question was asked yet, the risk or certainty lies outside (0, 1), or `since` is neither
                a number of days nor a date.
        """
        moment = None if since is None else moment_of(since, self._labels)
        answers = answers_of(self._judgements, self._labels, self.calibrator.state.labels, since=moment)
        return advise(answers, risk, certainty, anytime=anytime)

    def recalibrate(self, answers: Iterable[Record]) -> list[Record]:
        """Return earlier answers with the confidences and thresholds that they would get now.

        Labels and `accept` change later answers only. So compare confidences of different times after this call.

        >>> import secl
        >>> model = secl.load(secl.testing.ScriptedModel())
        >>> before = model.ask("Capital of Peru?")
        >>> _ = model.label(before, False, chance=1)
        >>> (after,) = model.recalibrate([before])
        >>> after.confidence < before.confidence
        True
        """
        labels, threshold = self.calibrator.state.labels, self.calibrator.threshold
        return [labels.apply(replace(answer, threshold=threshold)) for answer in answers]

    def _note(self, record: Record) -> Record:
        """Keep position, confidence and grade of a record for `threshold`, and return the record."""
        self._judgements += judgements_of(record)
        return record


def _marked(answer: Rated) -> Rated:
    """Give the current span of OpenTelemetry the confidence of an answer, and return the answer."""
    mark_span(confidence=answer.confidence, accepted=answer.accepted)
    return answer
