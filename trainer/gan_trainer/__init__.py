# SPDX-License-Identifier: Apache-2.0
"""A small GAN trainer."""

import os

__version__ = "0.2.0"

# Read before torch is imported: with GOMP_CPU_AFFINITY or OMP_PROC_BIND, that import binds the process to one core, and
# every data worker would inherit that (see data/workers.py).
CPUS_AT_START = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
