# SPDX-License-Identifier: Apache-2.0
"""Several processes or cards: data parallelism, ranks of one node, networks larger than a card."""
