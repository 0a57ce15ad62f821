# SPDX-License-Identifier: Apache-2.0
"""Checks `model.*`: the trainer and what its processes may hold."""
