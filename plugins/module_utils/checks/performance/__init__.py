# SPDX-License-Identifier: Apache-2.0
"""Checks `performance.*`: speeds against published floors."""
