# SPDX-License-Identifier: Apache-2.0
"""Training data: images from folders, caches, shards or generated, in an order that can be resumed."""
