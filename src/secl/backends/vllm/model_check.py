"""Does a server have the model that the learner has, and does it find the learner's versions? Asked at the start."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from secl.backends.vllm.client import CompletionRequest, Endpoint
from secl.errors import ModelError, UnavailableError
from secl.validation import check_finite

if TYPE_CHECKING:
    from secl.backends.local.model import LocalModel


class ModelCheck:
    """Compares the stated confidence for a sample question, and asks for a version by its name.

    Args:
        learner: has the model.
        tolerance: total variation of the ten bins that rounding may make, in (0, 1].

    Raises:
        ParameterError: a tolerance outside its range.
    """

    def __init__(self, learner: LocalModel, tolerance: float) -> None:
        from secl.backends.token_ids import SAMPLE

        check_finite("tolerance", tolerance, 0 < tolerance <= 1, "be above 0 and at most 1")
        frozen = learner.answer(SAMPLE).frozen
        self.tolerance = tolerance
        self.expected = frozen.bins
        self._sequence = learner.prompting.confidence(SAMPLE, frozen.text)
        self._digits = learner.backend.token_ids.digits

    def __call__(self, endpoint: Endpoint, version: Path) -> None:
        """Check that a server serves the model, and loads the adapter in a published folder.

        Raises:
            ModelError: it does not.
        """
        p = []
        for digit in self._digits:
            ((step,),) = endpoint.complete("", [self._sequence], CompletionRequest(top=0, only=digit))
            p.append(math.exp(step.log_p[digit]))
        distance = sum(abs(a / sum(p) - b) for a, b in zip(p, self.expected, strict=True)) / 2
        if distance > self.tolerance:
            raise ModelError(
                f"{endpoint.url} does not serve the learner's model: on a sample question its stated confidence is "
                f"{distance:.2f} away (total variation), more than {self.tolerance:g}."
            )
        try:
            endpoint.complete(version.name, [self._sequence], CompletionRequest())
        except UnavailableError:
            raise
        except ModelError as problem:
            raise ModelError(
                f"{problem} Start all servers with the same model name ({endpoint.root}), --enable-lora, a "
                "--max-lora-rank that is large enough, VLLM_ALLOW_RUNTIME_LORA_UPDATING=True and "
                f"VLLM_LORA_RESOLVER_CACHE_DIR={version.parent}."
            ) from problem
