# SPDX-License-Identifier: Apache-2.0
"""The training step and the run around it: precision, speed, memory, failures."""
