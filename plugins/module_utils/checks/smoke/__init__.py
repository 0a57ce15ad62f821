# SPDX-License-Identifier: Apache-2.0
"""Checks `smoke.*`: a short real training."""
