"""Does an endpoint serve the model that the learner has? Asked before it is used, and again when it returns."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from secl.backends.vllm.endpoint import CompletionRequest, Endpoint, UnavailableError
from secl.backends.vllm.token_prompts import Prompting
from secl.validation import check_finite

if TYPE_CHECKING:
    from secl.backends.local.model import LocalModel


class ModelCheck:
    """Compares the stated confidence for a sample question.

    Args:
        learner: has the model.
        prompting: builds the token ids.
        tolerance: total variation of the ten bins that rounding may make, in (0, 1].

    Raises:
        ParameterError: a tolerance outside its range.
    """

    def __init__(self, learner: LocalModel, prompting: Prompting, tolerance: float) -> None:
        from secl.backends.local.token_ids import SAMPLE

        check_finite("tolerance", tolerance, 0 < tolerance <= 1, "be above 0 and at most 1")
        frozen = learner.answer(SAMPLE).frozen
        self.tolerance = tolerance
        self.expected = frozen.bins
        self._sequence = prompting.digit(SAMPLE, frozen.text)
        self._digits = learner.words.digits

    def __call__(self, endpoint: Endpoint) -> None:
        """Let an endpoint pass that serves the model.

        Raises:
            UnavailableError: it serves another one.
        """
        found = []
        for digit in self._digits:
            ((step,),) = endpoint.complete(endpoint.base, [self._sequence], CompletionRequest(top=0, only=digit))
            found.append(math.exp(step.log_p[digit]))
        apart = sum(abs(a / sum(found) - b) for a, b in zip(found, self.expected, strict=True)) / 2
        if apart > self.tolerance:
            raise UnavailableError(
                f"{endpoint.url} does not serve the learner's model: on a sample question its stated confidence is "
                f"{apart:.2f} away (total variation), more than {self.tolerance:g}."
            )
