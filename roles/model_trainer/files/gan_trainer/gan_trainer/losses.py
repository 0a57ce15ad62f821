# SPDX-License-Identifier: Apache-2.0
"""GAN objectives on logits (N,) of any float type.

They compute in float32: in half precision the exponentials of confident logits overflow or vanish.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import relu, softplus


def discriminator_loss(kind: str, real_logits: Tensor, fake_logits: Tensor) -> Tensor:
    """Scalar to minimise by the discriminator.

    nonsaturating: -log D(real) - log(1 - D(fake)), mean over the batch; 2 ln 2 = 1.386 when it knows nothing.
    hinge: max(0, 1 - real) + max(0, 1 + fake); 2 when it knows nothing.
    """
    real, fake = real_logits.float(), fake_logits.float()
    if kind == "hinge":
        return relu(1.0 - real).mean() + relu(1.0 + fake).mean()
    return softplus(-real).mean() + softplus(fake).mean()


def generator_loss(kind: str, fake_logits: Tensor) -> Tensor:
    """Scalar to minimise by the generator: -log D(fake), or -fake for hinge, mean over the batch."""
    fake = fake_logits.float()
    return -fake.mean() if kind == "hinge" else softplus(-fake).mean()
