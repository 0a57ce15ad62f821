# SPDX-License-Identifier: Apache-2.0
"""--profile: which operators a step spends its time in, by torch.profiler."""

from __future__ import annotations

from pathlib import Path

from torch.profiler import ProfilerActivity, profile, schedule

from ..safe_files import replace_text

# Steps: the first ones compile and search, then the profiler itself warms up, then it records.
WAIT, WARM_UP, RECORDED = 5, 2, 5
COSTLIEST = 10


class StepProfiler:
    """Call `step` after each training step; after WAIT + WARM_UP + RECORDED of them it writes its two files.

    trace.json opens in chrome://tracing or Perfetto; operators.txt is the table of the ten costliest operators.
    """

    def __init__(self, folder: Path, on_gpu: bool) -> None:
        self.folder, self.on_gpu = folder, on_gpu
        self.table = ""
        activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_gpu else [])
        plan = schedule(wait=WAIT, warmup=WARM_UP, active=RECORDED, repeat=1)
        self.profiler = profile(
            activities=activities, schedule=plan, on_trace_ready=self.write, profile_memory=True, record_shapes=True
        )

    def __enter__(self) -> StepProfiler:
        self.profiler.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.profiler.__exit__(*error)

    def step(self) -> None:
        self.profiler.step()

    def write(self, profiler: profile) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(str(self.folder / "trace.json"))
        averages = profiler.key_averages()
        # The name of this column changed in torch 2.3.
        gpu = "self_device_time_total" if hasattr(averages[0], "self_device_time_total") else "self_cuda_time_total"
        order = gpu if self.on_gpu else "self_cpu_time_total"
        self.table = averages.table(sort_by=order, row_limit=COSTLIEST, max_name_column_width=60)
        replace_text(self.folder / "operators.txt", self.table + "\n")
        print(self.table, flush=True)
