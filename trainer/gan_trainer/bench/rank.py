# SPDX-License-Identifier: Apache-2.0
"""torchrun ... -m gan_trainer.bench.rank JOB: one process of training.measure_ranks."""

from __future__ import annotations

import sys
from pathlib import Path

from .training import run_rank

if __name__ == "__main__":
    run_rank(Path(sys.argv[1]))
