"""What is trained, here a variational autoencoder (Kingma and Welling 2014): `build(config)` gives the task."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from gan_trainer.config import Config
from gan_trainer.tasks import Batch, Part, Phase, Task
from gan_trainer.tasks.task import Losses


class Autoencoder(nn.Module):
    """Images (N, 3, S, S) to a mean and a log variance (N, latent_dim), and back."""

    def __init__(self, image_size: int, channels: int, latent_dim: int) -> None:
        super().__init__()
        small, wide = image_size // 4, channels * 2
        self.encode = nn.Sequential(
            *(nn.Conv2d(3, channels, 4, 2, 1), nn.SiLU(), nn.Conv2d(channels, wide, 4, 2, 1), nn.SiLU()),
            *(nn.Flatten(), nn.Linear(wide * small**2, 2 * latent_dim)),
        )
        self.decode = nn.Sequential(
            *(nn.Linear(latent_dim, wide * small**2), nn.Unflatten(1, (wide, small, small)), nn.SiLU()),
            *(nn.ConvTranspose2d(wide, channels, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(channels, 3, 4, 2, 1)),
        )

    def forward(self, images: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encode(images).chunk(2, dim=1)
        return self.decode(mean + noise * torch.exp(log_variance / 2)), mean, log_variance


class AutoencoderTask(Task):
    averaged = "autoencoder"
    shown = ("reconstruction", "divergence")

    def build(self) -> dict[str, nn.Module]:
        """The networks, by name. The trainer gives each an optimizer."""
        config = self.config
        return {"autoencoder": Autoencoder(config.image_size, config.channels, config.latent_dim)}

    def phases(self) -> tuple[Phase, ...]:
        """The updates of a step. A GAN has two: see gan_trainer/tasks/gan.py."""
        return (Phase("autoencoder", self.loss),)

    def draw(self, count: int, random: torch.Generator) -> Batch:
        """All random numbers of a step."""
        return {"noise": torch.randn((count, self.config.latent_dim), generator=random, device=random.device)}

    def loss(self, part: Part) -> Losses:
        """What is minimised, and what is shown of it. The network that learns is called through `self.run`."""
        images = part.batch["images"]
        found, mean, log_variance = self.run["autoencoder"](images, part.batch["noise"])
        reconstruction = mse_loss(found.float(), images)
        mean, log_variance = mean.float(), log_variance.float()
        divergence = (mean.square() + log_variance.exp() - log_variance - 1.0).mean() / 2
        weight = float(self.config.options.get("kl_weight", 0.05))
        return reconstruction + weight * divergence, {"reconstruction": reconstruction, "divergence": divergence}

    def sampler(self, network: nn.Module) -> nn.Module:
        """From noise (N, latent_dim) to images: what is drawn, measured and exported."""
        return network.get_submodule("decode")


def build(config: Config) -> Task:
    return AutoencoderTask(config)
