# SPDX-License-Identifier: Apache-2.0
"""Measured speeds of this machine: `python -m gan_trainer.performance`."""
