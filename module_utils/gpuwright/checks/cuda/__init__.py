# SPDX-License-Identifier: Apache-2.0
"""Checks `cuda.*`, and of the other software on top of the driver."""
