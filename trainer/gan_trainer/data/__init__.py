# SPDX-License-Identifier: Apache-2.0
"""What a training is fed with: images from folders, caches, shards or made up, in an order that can be resumed."""
