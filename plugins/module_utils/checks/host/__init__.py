# SPDX-License-Identifier: Apache-2.0
"""Checks `host.*`: the host below the driver."""
