# SPDX-License-Identifier: Apache-2.0
"""GAN objectives on logits (N,) of any float type, and gradient penalties.

They compute in float32: in half precision the exponentials of confident logits overflow or vanish.

nonsaturating: Goodfellow et al. 2014. hinge: Lim and Ye 2017. relativistic: each real image is judged beside a
generated one (Jolicoeur-Martineau 2018); with both penalties its training converges locally (R3GAN, Huang et al. 2024).
"""

from __future__ import annotations

from typing import Callable

import torch
from torch import Tensor
from torch.nn.functional import relu, softplus

RELATIVISTIC = "relativistic"


def discriminator_loss(kind: str, real_logits: Tensor, fake_logits: Tensor) -> Tensor:
    """Scalar to minimise by the discriminator, a mean over the batch.

    nonsaturating: -log D(real) - log(1 - D(fake)); 2 ln 2 = 1.386 when it knows nothing.
    hinge: max(0, 1 - real) + max(0, 1 + fake); 2 when it knows nothing.
    relativistic: -log sigmoid(real - fake), pair by pair; ln 2 = 0.693 when it knows nothing.
    """
    real, fake = real_logits.float(), fake_logits.float()
    if kind == RELATIVISTIC:
        return softplus(fake - real).mean()
    if kind == "hinge":
        return relu(1.0 - real).mean() + relu(1.0 + fake).mean()
    return softplus(-real).mean() + softplus(fake).mean()


def generator_loss(kind: str, fake_logits: Tensor, real_logits: Tensor | None = None) -> Tensor:
    """Scalar to minimise by the generator, a mean over the batch; only the relativistic one needs the real logits."""
    fake = fake_logits.float()
    if kind == RELATIVISTIC:
        if real_logits is None:
            raise TypeError("the relativistic loss compares with real_logits, and there are none")
        return softplus(real_logits.float() - fake).mean()
    return -fake.mean() if kind == "hinge" else softplus(-fake).mean()


def gradient_penalty(logits: Tensor, images: Tensor) -> Tensor:
    """R1 on real images, R2 on generated ones (Mescheder et al. 2018): the mean of |d logit / d image|^2 / 2.

    `logits` (N,) must come from `images` (N, 3, S, S), which require gradients. The result can be differentiated again.
    """
    (slope,) = torch.autograd.grad(logits.float().sum(), images, create_graph=True)
    return slope.float().square().sum(dim=(1, 2, 3)).mean() / 2


def functional_gradient_penalty(discriminator: Callable[..., Tensor], images: Tensor, *labels: Tensor) -> Tensor:
    """The same value with a forward pass of its own, in a form that torch.compile can trace."""
    slope = torch.func.grad(lambda pixels: discriminator(pixels, *labels).float().sum())(images)
    return slope.float().square().sum(dim=(1, 2, 3)).mean() / 2
