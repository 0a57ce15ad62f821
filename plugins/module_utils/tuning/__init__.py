# SPDX-License-Identifier: Apache-2.0
"""Settings of a host: the table of them, set and put back, shown by gpu-tune."""
