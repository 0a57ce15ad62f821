# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's Xid and SXid codes as data, and how one is judged."""
