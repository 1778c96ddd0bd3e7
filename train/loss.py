"""What training lowers: the cross-entropy of the labels and, if a teacher has a share, of its probabilities.

Labels (samples,) are of samples, (samples, steps) of every step, whose scores follow each other."""

from __future__ import annotations

import torch
from torch.nn import functional

Tensor = torch.Tensor


def loss_of(scores: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy of classes; of one score, whether it lies above zero."""
    scores, y = _by_label(scores, y), y.flatten()
    if scores.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(scores[:, 0], y.to(scores.dtype))
    return functional.cross_entropy(scores, y)


def taught_loss(scores: Tensor, y: Tensor, teacher: Tensor, share: float) -> Tensor:
    """`share` of the cross-entropy is of the probabilities that the scores `teacher` stand for, the rest of the labels
    (Hinton et al. 2015, at temperature 1)."""
    scores, teacher, y = _by_label(scores, y), _by_label(teacher, y), y.flatten()
    if scores.shape[1] == 1:
        soft = functional.binary_cross_entropy_with_logits(scores[:, 0], teacher[:, 0].sigmoid().to(scores.dtype))
    else:
        soft = functional.cross_entropy(scores, teacher.softmax(1).to(scores.dtype))
    return share * soft + (1 - share) * loss_of(scores, y)


def _by_label(scores: Tensor, y: Tensor) -> Tensor:
    return scores.reshape(y.numel(), -1)
