# SPDX-License-Identifier: Apache-2.0
"""Check `cudnn.version`."""
