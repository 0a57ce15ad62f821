# SPDX-License-Identifier: Apache-2.0
"""Readings of a node that several slices of checks share."""
