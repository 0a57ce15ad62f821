# SPDX-License-Identifier: Apache-2.0
"""What a run leaves in its folder: configuration, checkpoints, samples, statistics."""
