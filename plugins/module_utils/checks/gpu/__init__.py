# SPDX-License-Identifier: Apache-2.0
"""Checks `gpu.*`: each card, its links and its place in the node."""
