# SPDX-License-Identifier: Apache-2.0
"""Checks `driver.*`: the driver as it is loaded, installed and there after the next boot."""
