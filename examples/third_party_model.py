"""Your own model: write a class that implements `secl.Model`. Then `secl` can run and serve the model.

python examples/third_party_model.py run FOLDER      # 60 questions; after a kill, the same command continues
python examples/third_party_model.py serve FOLDER    # 20 questions through the server's service, with lessons
"""

import json
import math
import sys
from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import secl
from secl.evidence import OPTIONS, CandidateEvidence, Evidence, LetterOrder, PTrue
from secl.model import Learner, ModelAnswer
from secl.records import Reply, Update
from secl.runs import RunSettings, resume_run, start_run
from secl.server.online.service import open_service, serving_settings
from secl.testing import bins_around


class Weight(Learner):  # a model that does not learn needs no such class
    stated, version, updates = 0.85, 0, 0

    def learn(self, question: secl.Question, reply: Reply, target: float) -> Update:
        self.stated += 0.3 * (target - self.stated)
        self.version = self.updates = self.updates + 1
        loss = (reply.stated - target) ** 2
        return Update(version=self.version, before=reply.stated, target=target, after=self.stated, losses=(loss,))

    def reset(self) -> None:
        self.stated, self.version = 0.85, 0

    def snapshot(self) -> bytes:
        return json.dumps([self.stated, self.version, self.updates]).encode()

    def restore(self, snapshot: bytes) -> None:
        self.stated, self.version, self.updates = json.loads(snapshot)

    def weights(self) -> bytes:
        return json.dumps(self.stated).encode()

    def load_version(self, weights: bytes, version: int) -> None:
        self.stated, self.version, self.updates = json.loads(weights), version, max(version, self.updates)


class LetterModel(secl.Model):  # prefers the option that shares most letters with the question
    name = fingerprint = "letters"

    @cached_property
    def learner(self) -> Weight:
        return Weight()

    def answer(self, question: secl.Question, **how: object) -> ModelAnswer:
        if not question.options:
            raise secl.QuestionError(f"question {question.id!r} has no options; this model needs options.")
        self.meter.spend("answering", len(question.text))
        scores = [math.exp(0.3 * len({*question.text} & {*option})) for option in question.options]
        log_p = tuple(math.log(score / sum(scores)) for score in scores)
        best, entropy = max(log_p), -sum(math.exp(each) * each for each in log_p)
        letter = question.letters[log_p.index(best)]
        reply = Reply(text=letter, answer=letter, bins=(), digit_mass=1.0, entropy=entropy, log_probability=best)
        frozen = replace(reply, bins=bins_around(0.85), option_log_p=log_p)
        adapted = replace(frozen, bins=bins_around(self.learner.stated), version=self.learner.version)
        return ModelAnswer(reply=adapted, frozen=frozen, plain_tokens=float(len(question.text)))

    def gather(self, question: secl.Question, reply: Reply, evidence: Collection[str], **how: object) -> Evidence:
        log_p, options = reply.option_log_p, question.options
        order = sorted(range(len(log_p)), key=lambda i: question.letters[i] != reply.answer)  # the answer first
        texts, p = tuple(options[i] for i in order), tuple(math.exp(log_p[i]) for i in order)
        backwards = LetterOrder(order=tuple(range(len(log_p)))[::-1], log_p=log_p)
        unread = tuple(None for _ in options)  # this model has no likelihoods of texts
        compared = CandidateEvidence(candidates=options, letters=(backwards,), likelihoods=unread, source=OPTIONS)
        return Evidence(
            p_true=PTrue(candidates=texts, probabilities=p, source=OPTIONS) if "p_true" in evidence else None,
            candidates=compared if "candidates" in evidence else None,
        )


def main(command: str, folder: Path) -> None:
    values = {"method": "secl", "gate.name": "always", "stream.benchmarks": ("capitals:40", "science:20")}
    load = lambda _settings: LetterModel()  # noqa: E731
    if command == "run":
        run = resume_run(folder, load=load) if folder.exists() else start_run(RunSettings.of(values), folder, load)
        print(len(run.records), "questions are recorded already", flush=True)
        run.proceed()
        run.finish()
    else:
        service = open_service(folder, serving_settings({"method": "secl", "gate.name": "always"}), load=load)
        service.start()
        print(service.position, "answers are recorded already", flush=True)
        for question in secl.load_stream(["capitals"], 20):
            print(service.ask(question).record.reply.stated, flush=True)
        service.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
