# SPDX-License-Identifier: Apache-2.0
"""Checks `kernel.*`: what the kernel's log says."""
