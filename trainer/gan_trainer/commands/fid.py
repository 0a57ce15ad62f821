# SPDX-License-Identifier: Apache-2.0
"""train-gan fid: the Fréchet inception distance between the data and the averaged generator of a checkpoint."""

from __future__ import annotations

import argparse
import json

from ..errors import UsageError
from .options import add_config_arguments, read_config

MIN_IMAGES, MAX_IMAGES = 2, 10_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_arguments(parser)
    parser.add_argument(
        "--features", metavar="FILE", help="feature network as TorchScript, such as inception-2015-12-05.pt; needed"
    )
    parser.add_argument("--images", type=int, default=50_000, help="of each side (default: %(default)s, as published)")
    parser.add_argument("--checkpoint", metavar="FILE", help="default: the newest in run_dir that can be read")
    parser.add_argument("--json", action="store_true", help="one line of JSON")


def run(options: argparse.Namespace) -> int:
    config = read_config(options)
    if not options.features:
        raise UsageError(
            "--features FILE is missing: the network that compares images, as TorchScript. inception-2015-12-05.pt of "
            "StyleGAN2-ADA gives the published numbers; without one, train with distance_every=1000"
        )
    if not MIN_IMAGES <= options.images <= MAX_IMAGES:
        raise UsageError(f"--images {options.images}: expected {MIN_IMAGES} to {MAX_IMAGES}")

    from ..engine.train import choose_device
    from ..inference.fid import FeatureNetwork, measure_fid
    from ..inference.trained import load_trained

    device = choose_device(config.device)
    trained = load_trained(config.run_dir, options.checkpoint)
    network = FeatureNetwork(options.features, trained.config.image_size, device)
    found = measure_fid(trained, config, network, options.images, device)
    if options.json:
        print(json.dumps({"schema": 1, **found, "features": options.features}))
        return 0
    images = f"{found['real_images']} real and {found['images']} generated images"
    print(f"FID {found['fid']:.3f} of step {found['step']}, {images}, {found['num_features']} features")
    if found["real_images"] < options.images:
        print(f"The data have {found['real_images']} images, each of which was used once; --images asked for more")
    if found["real_images"] < found["num_features"]:
        print("Fewer images than features: the distance is biased upwards, so do not compare it with published values")
    return 0
