# SPDX-License-Identifier: Apache-2.0
"""gpu-run: start a command on the CPUs, memory and allocator that suit its GPUs."""
