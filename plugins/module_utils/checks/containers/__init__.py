# SPDX-License-Identifier: Apache-2.0
"""Checks `containers.*`."""
