"""Looking ahead along a stream: windows of upcoming questions that share passes through the network.

What the frozen model says about a question never goes stale, so it is computed for a whole window at once, and so is
what the adapted model says as long as no update is expected. A pass of another shape rounds differently: records of a
stream with and without windows agree to rounding (in float32 to about 1e-4; in bfloat16 an answer may differ), while a
resumed run uses the same windows and gives the same records to the last digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from secl.gates import Gate, gap_of
from secl.question import Question
from secl.records import Record

if TYPE_CHECKING:
    from secl.calibrator import Calibrator
    from secl.stream_state import StreamState

WINDOW = 16
"""Questions in a window. Windows begin at multiples of it, also after a resume, because a pass over other questions may
round differently."""


class Expected(NamedTuple):
    """What a gate will probably make of a question: whether it is in a burst, and whether it is probed."""

    in_burst: bool
    probed: bool

    @property
    def judged(self) -> bool:
        """Whether its evidence is gathered."""
        return self.in_burst or self.probed


def foresee(gate: Gate, state: Any, entropy: float, count: int) -> list[Expected]:
    """What becomes of the next `count` questions if the entropy (nats) stays as it is and no gap is seen.

    >>> from secl.gates import EntropyShift
    >>> gate = EntropyShift(burst=2)
    >>> [expected.in_burst for expected in foresee(gate, gate.start(), 1.0, 3)]
    [True, True, False]
    """
    expected = []
    for _ in range(count):
        probed = gate.probes(state)
        state, decision = gate.step(state, entropy)
        expected.append(Expected(decision.in_burst, probed))
    return expected


class Lookahead:
    """Prefetches the windows of one stream for a calibrator.

    Args:
        calibrator: whose gate says which questions will probably need evidence.
        done: records of the stream's first questions, when it is resumed in the middle of a window.
    """

    def __init__(self, calibrator: Calibrator, done: Sequence[Record] = ()) -> None:
        self._calibrator = calibrator
        self._prefetched, self._weights_fixed = False, True
        state = calibrator.start() if done else calibrator.state
        self._begin_window(state)  # also in the middle of one, where single questions were asked before
        for record in done:
            if state.position % WINDOW == 0:
                self._begin_window(state)
            state, _ = state.step(calibrator.gate, record.reply.entropy)
            state = state.observe(calibrator.gate, gap_of(record))
            self.advance(record)

    def prefetch(self, upcoming: Sequence[Question]) -> None:
        """Prefetch for `upcoming`, the questions that follow; does nothing in the middle of a window."""
        state = self._calibrator.state
        if state.position % WINDOW == 0:
            self._begin_window(state)
        elif self._prefetched:
            return
        self._prefetched = True
        # After a resume the answered questions of the window go along: the pass must have the shape that it had before.
        window = [*self._answered, *upcoming[: WINDOW - state.position % WINDOW]]
        evidence = self._evidence[: len(window)]
        self._calibrator.model.prefetch(window, evidence, weights_fixed=self._weights_fixed)

    def advance(self, record: Record) -> None:
        """Note that a question of the window has been answered."""
        self._answered.append(record.question)
        self._weights_fixed = self._weights_fixed and record.update is None

    def _begin_window(self, state: StreamState) -> None:
        """Begin a window and guess what its questions will need; a wrong guess costs only tokens."""
        loop = self._calibrator
        expected = foresee(loop.gate, state.gate, state.entropy, WINDOW)
        self._evidence = [loop.plan.wanted(each.judged) for each in expected]
        self._weights_fixed = not (loop.learns and any(each.in_burst for each in expected))
        self._answered: list[Question] = []
