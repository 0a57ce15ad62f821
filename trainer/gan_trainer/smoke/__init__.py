# SPDX-License-Identifier: Apache-2.0
"""A short real training that proves an installation: `python -m gan_trainer.smoke`."""
