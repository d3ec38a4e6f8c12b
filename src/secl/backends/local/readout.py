"""From final hidden states to replies and probabilities: everything that is read off the network."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from secl.backends.local.fast.prefix_tree import Trie
from secl.backends.local.fast.shared_network import Nodes
from secl.backends.local.model_parts import Head
from secl.backends.local.token_ids import TokenIds
from secl.errors import ModelError
from secl.prompts.parsing import read_answer
from secl.records import Question, Reply
from secl.settings import PTrueKind


class Reader:
    """Reads letters, confidence digits, entropies and P(True) with a head.

    Args:
        head: from hidden states to logits.
        words: token ids of what is read.
        p_true: the probability of True over the full vocabulary, or against False alone ("pair").
        device: where the hidden states are.

    Attributes:
        digits: (10,) token ids of the digits.
    """

    def __init__(self, head: Head, words: TokenIds, p_true: PTrueKind, device: torch.device) -> None:
        self.head = head
        self.kind = p_true
        self.device = device
        self.digits = torch.tensor(words.digits, device=device)
        self._letters = torch.tensor(words.letters, device=device)
        self._special = torch.tensor(words.special, device=device)
        self._yes_no = torch.tensor(words.yes_no, device=device)
        self._true = [words.special.index(i) for i in words.true]
        self._false = [words.special.index(i) for i in words.false]

    def choice(self, question: Question, states: Tensor, version: int) -> Reply:
        """Reply from the states (1 + options, d) before the letter (first) and before each letter's digit."""
        letters = self._letters[: len(question.options)]
        chosen = int(self.head.rows(states[:1], letters)[0].argmax())
        return self.reply(question, question.letters[chosen], states[[0, 1 + chosen]], letters[[chosen]], version)

    def reply(self, question: Question, text: str, states: Tensor, written: Tensor, version: int) -> Reply:
        """Reply from the states (N + 1, d) before its N tokens `written` and, last, before its confidence digit."""
        log_p = self.head.logits(states, self._special).log_softmax(-1)
        entropy = -(log_p.exp() * log_p).sum(-1).mean()
        log_probability = log_p[:-1].gather(-1, written[:, None]).sum().item()
        # On the CPU, because some devices have no float64.
        digits = log_p[-1, self.digits].cpu().double()
        mass = digits.exp().sum().item()
        answer = text if question.options else read_answer(text, question.form)
        bins = tuple(digits.softmax(-1).tolist())
        return Reply(
            text=text.strip(),
            answer=answer,
            bins=bins,
            digit_mass=min(1.0, mass),
            entropy=entropy.item(),
            log_probability=min(0.0, log_probability),
            version=version,
        )

    def options(self, count: int, states: Tensor) -> list[tuple[float, ...]]:
        """Probabilities of the first `count` option letters, renormalised to sum to 1, after each state (N, d)."""
        shares = self.head.rows(states, self._letters[:count]).cpu().double().softmax(-1)
        return [tuple(row) for row in shares.tolist()]

    def p_yes(self, states: Tensor) -> tuple[float, ...]:
        """P("Yes") against "No" from the states (candidates, d) before the verdict.

        Raises:
            ModelError: the tokenizer splits one of the words.
        """
        if not len(self._yes_no):
            raise ModelError(
                "the tokenizer of the model splits Yes or No, which DINCO verifies by; choose a method without DINCO."
            )
        return tuple(self.head.rows(states, self._yes_no).cpu().double().softmax(-1)[:, 0].tolist())

    def p_true(self, states: Tensor) -> tuple[float, ...]:
        """P(True) from the states (candidates, d) before the verdict."""
        special = self.head.logits(states, self._special).log_softmax(-1)[:, self._special].cpu().double().exp()
        true, false = special[:, self._true].sum(-1), special[:, self._false].sum(-1)
        found = true if self.kind == "vocabulary" else true / (true + false).clamp(min=1e-300)
        return tuple(min(1.0, p) for p in found.tolist())

    def most_likely(self, states: Tensor) -> NDArray[np.int64]:
        """The most probable next token (N,) after each state (N, d)."""
        tokens: NDArray[np.int64] = self.head.logits(states, self._special).argmax(-1).cpu().numpy()
        return tokens


def ends_of(trie: Trie) -> Nodes:
    """The last node of each sequence."""
    return np.array([int(path[-1]) for path in trie.paths])
