# SPDX-License-Identifier: Apache-2.0
"""What a host is, read without a driver: the fact `gpu_node`."""
