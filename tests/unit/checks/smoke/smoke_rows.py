"""Rows of test_checks_sad_paths: what the smoke test can end in."""

from __future__ import annotations

import healthy_node
from gpuwright.verdict.check import FAIL, PASS, SKIP, UNKNOWN, WARN
from node_names import Changes
from row_values import GPU

ON_CPU = {**healthy_node.SMOKE, "device": "cpu", "devices": [{**healthy_node.SMOKE["devices"][0], "device": "cpu"}]}
APPLIED = ("smoke", "devices", 0, "amp", "steps_applied")
RATIO = ("smoke", "devices", 0, "speed_ratio")
ALICE = "python3.11 (pid 4321, alice, since 2026-01-05T10:40:00Z)"
LAST: Changes = {("smoke", "busy"): ALICE, ("smoke", "age_s"): 7300}
# The last one was told to run on the CPU, this one on the cards: it says nothing about them.
LAST_ON_CPU: Changes = {("smoke",): {**ON_CPU, "busy": ALICE, "age_s": 63}}
LAST_CHECK: Changes = {("smoke", "check_mode"): True, ("smoke", "age_s"): 7300}
COMPILE = healthy_node.SMOKE["compile"]
TRITON, EXTENSION, COMPILED, NVRTC = COMPILE["steps"]
STEPS = ("smoke", "compile", "steps")
LEFT_OUT = {"name": "torch.compile", "why": "not supported on Python 3.11"}
OLD = ("probe", "gpus", 0, "compute_capability")
PARALLEL = healthy_node.OTHER_NODES["smoke.parallel"]["smoke", "parallel"]


def parallel(**changes: object) -> Changes:
    return {("smoke", "parallel"): {**PARALLEL, **changes}}


def fault(number: int, code: str, words: str = "why") -> Changes:
    return {(*STEPS, number, "fault"): code, (*STEPS, number, "words"): words}


# (check, {path in the readings: value}, {expectation: value}, status, words of the message)
ROWS = [
    ("smoke.amp", {("smoke", "problems"): ["loss is not finite", "b"]}, {}, FAIL, "loss is not finite (+1 more)"),
    # With the codes of the problems, one for each; other shapes say nothing.
    ("smoke.amp", {("smoke", "problems"): ["a"], ("smoke", "problem_codes"): ["no-gpu"]}, {}, FAIL, "a"),
    ("smoke.amp", {("smoke", "problems"): ["a"], ("smoke", "problem_codes"): "x"}, {}, FAIL, "a"),
    ("smoke.amp", {("smoke", "problems"): ["a"], ("smoke", "problem_codes"): ["no-gpu", "raised"]}, {}, FAIL, "a"),
    ("smoke.amp", {("smoke", "problems"): ["a", "b"], ("smoke", "problem_codes"): ["no-gpu", 5]}, {}, FAIL, "a"),
    ("smoke.amp", {("smoke", "problems"): ["a"], ("smoke", "problem_codes"): ["No words!"]}, {}, FAIL, "a"),
    (
        "smoke.amp",
        {("smoke", "problems"): ["a", "b"], ("smoke", "problem_codes"): ["raised", "wrong-result"]},
        {},
        FAIL,
        "a",
    ),
    ("smoke.amp", {("smoke",): {"msg": "no account", "code": "no-user"}}, {}, FAIL, "no account"),
    ("smoke.amp", {("smoke",): {"msg": "no account"}}, {}, FAIL, "no account"),
    ("smoke.amp", {("smoke", "devices", 0, "device"): "cpu"}, {}, FAIL, "ran on cpu instead of cuda"),
    ("smoke.amp", {("smoke", "devices"): []}, {}, FAIL, "0 of 1 devices"),
    ("smoke.amp", {}, {"gpu_count": 2}, FAIL, "1 of 2 devices"),
    (
        "smoke.amp",
        {APPLIED: 0},
        {},
        FAIL,
        "no training step was applied in amp",
    ),
    ("smoke.amp", {("smoke", "devices", 0, "fp32", "steps_applied"): 0}, {}, FAIL, "applied in fp32"),
    ("smoke.amp", {("smoke", "devices", 0, "amp", "parameters_changed"): False}, {}, FAIL, "changed nothing"),
    ("smoke.amp", {("smoke",): {"skipped": True, "msg": "check mode"}}, {}, UNKNOWN, "skipped: check mode"),
    ("smoke.amp", {("smoke",): {"failed": False, "msg": "no venv"}}, {}, FAIL, "no venv"),
    ("smoke.amp", {("smoke",): {"smoke": None, "msg": "a: b\nc"}}, {}, FAIL, "a: b"),
    ("smoke.amp", {("smoke",): {"smoke": None}}, {}, FAIL, "no record and no reason"),
    ("smoke.amp", {("smoke",): {"smoke": healthy_node.SMOKE, "msg": "exit code 3"}}, {}, FAIL, "exit code 3"),
    ("smoke.amp", {("smoke",): {"msg": "bad", "smoke": {"problems": ["lost"]}}}, {}, FAIL, "lost"),
    ("smoke.amp", {("smoke",): {"smoke": healthy_node.SMOKE}}, {}, PASS, "trained on cuda:0 in float32 and float16"),
    ("smoke.amp", {("smoke",): ON_CPU}, {"smoke_device": "cpu"}, PASS, "trained on the CPU, as requested"),
    ("smoke.amp", {("smoke",): ON_CPU}, {}, FAIL, "asked to run on cpu"),
    ("smoke.amp", {("smoke", "device"): "cpu"}, {"smoke_device": "cpu"}, FAIL, "ran on cuda:0"),
    ("smoke.amp", {("smoke", "age_s"): 3 * 86400}, {}, PASS, "3 days ago"),
    ("smoke.amp", {("smoke", "age_s"): 7300}, {}, PASS, "2 hours ago"),
    # Somebody worked on the GPUs: what the last test found wrong stays, everything else is skipped.
    ("smoke.amp", {("smoke",): {"busy": ALICE}}, {}, SKIP, f"not run, since the GPUs were in use: {ALICE}"),
    ("smoke.amp", {("smoke",): {"busy": None}}, {}, UNKNOWN, "smoke.busy is not a string"),
    ("smoke.amp", {("smoke",): {"busy": ""}}, {}, UNKNOWN, "smoke.busy reads ''"),
    ("smoke.amp", {**LAST}, {}, SKIP, f"in use: {ALICE}; the last one, 2 hours ago, ended with PASS"),
    ("smoke.amp", {**LAST, ("smoke", "age_s"): "x"}, {}, SKIP, f"in use: {ALICE}"),
    ("smoke.amp", {**LAST, APPLIED: 0}, {}, FAIL, "in amp on cuda:0, 2 hours ago; now the smoke test was not run"),
    ("smoke.amp", {**LAST, ("smoke", "problems"): ["lost"]}, {}, FAIL, "lost, 2 hours ago; now the smoke test was not"),
    ("smoke.amp", {**LAST_ON_CPU}, {}, SKIP, f"in use: {ALICE}; the last one, 63 seconds ago, was on cpu"),
    ("smoke.amp", {**LAST_ON_CPU, APPLIED: 0}, {"smoke_device": "cpu"}, FAIL, "in amp on cpu, 63 seconds ago; now"),
    ("smoke.amp", {**LAST_ON_CPU, ("smoke", "problems"): ["lost"]}, {}, FAIL, "lost, 63 seconds ago; now"),
    ("smoke.amp", {("smoke",): {**ON_CPU, "check_mode": True, "age_s": 63}}, {}, SKIP, "63 seconds ago, was on cpu"),
    ("smoke.amp", {("smoke",): {"check_mode": True}}, {}, SKIP, "check mode runs no smoke test"),
    ("smoke.amp", {**LAST_CHECK, APPLIED: 0}, {}, FAIL, "in amp on cuda:0, 2 hours ago; now check mode runs no"),
    ("model.limits", {("smoke",): {"check_mode": True}}, {}, SKIP, "check mode runs no smoke test"),
    ("smoke.speed_ratio", {("smoke",): {"busy": ALICE}}, {}, SKIP, ALICE),
    ("smoke.speed_ratio", {**LAST, RATIO: 1.7}, {}, SKIP, "the last one, 2 hours ago, ended with WARN"),
    ("smoke.speed_ratio", {**LAST, RATIO: 1.1}, {}, FAIL, "floor 1.62"),
    ("smoke.speed_ratio", {**LAST_ON_CPU, RATIO: 1.1}, {}, SKIP, "the last one, 63 seconds ago, was on cpu"),
    ("smoke.parallel", {**LAST_ON_CPU, **parallel(backend="gloo")}, {"gpu_count": 2}, SKIP, "was on cpu"),
    ("smoke.parallel", {("smoke",): {"busy": ALICE}}, {"gpu_count": 2}, SKIP, ALICE),
    ("smoke.parallel", {**LAST, **parallel(backend="gloo")}, {"gpu_count": 2}, FAIL, "it ran over gloo, 2 hours ago"),
    ("smoke.sandbox", {("smoke",): {"busy": ALICE}}, {}, SKIP, ALICE),
    ("model.limits", {("smoke",): {"busy": ALICE}}, {}, SKIP, ALICE),
    ("model.limits", {**LAST, ("smoke", "limits", "files"): "1024"}, {}, WARN, "1024 open files"),
    ("smoke.speed_ratio", {RATIO: 1.619}, {}, FAIL, "cuda:0: 1.619 times as fast as float32; floor 1.62"),
    ("smoke.speed_ratio", {RATIO: 1.62}, {}, WARN, "floor 1.62"),
    ("smoke.speed_ratio", {RATIO: 1.7}, {}, WARN, "floor 1.62"),
    ("smoke.speed_ratio", {RATIO: 1.701}, {}, PASS, "floor 1.62"),
    ("smoke.speed_ratio", {RATIO: None}, {}, UNKNOWN, "speed_ratio"),
    ("smoke.speed_ratio", {(*GPU, "architecture"): "hopper"}, {}, SKIP, "no published floor for hopper; measured"),
    ("smoke.speed_ratio", {("probe", "gpus"): []}, {}, UNKNOWN, "there are 0"),
    ("smoke.speed_ratio", {("smoke", "devices"): []}, {}, UNKNOWN, "at least one architecture and one GPU"),
    ("smoke.speed_ratio", {("smoke",): ON_CPU}, {"smoke_device": "cpu"}, SKIP, "says nothing about a GPU"),
    ("smoke.parallel", {}, {}, SKIP, "there is one GPU"),
    ("smoke.parallel", {}, {"gpu_count": 2}, UNKNOWN, "there was no training over all GPUs"),
    ("smoke.parallel", parallel(), {"gpu_count": 3}, FAIL, "over 2 of 3 devices"),
    ("smoke.parallel", parallel(backend="gloo"), {"gpu_count": 2}, FAIL, "it ran over gloo"),
    ("smoke.parallel", parallel(gradients_equal=False), {"gpu_count": 2}, FAIL, "the gradients differ"),
    ("smoke.parallel", parallel(parameters_equal=False), {"gpu_count": 2}, FAIL, "the parameters differ"),
    ("smoke.parallel", parallel(steps_applied=0), {"gpu_count": 2}, FAIL, "applied no step"),
    ("smoke.parallel", parallel(parameters_changed=False), {"gpu_count": 2}, FAIL, "applied no step"),
    ("smoke.parallel", parallel(backend="gloo"), {"smoke_device": "cpu"}, PASS, "2 processes over gloo"),
    ("smoke.parallel", parallel(), {"smoke_device": "cpu"}, FAIL, "it ran over nccl"),
    ("smoke.sandbox", {("smoke", "sandbox"): None}, {}, WARN, "run without the service's sandbox: all 15"),
    ("smoke.sandbox", {("smoke", "sandbox"): "somewhere"}, {}, UNKNOWN, "is not a service"),
    ("smoke.compile", {}, {}, PASS, "Triton's helper in C, a PyTorch extension in C++, a function under torch.compile"),
    ("smoke.compile", {("smoke", "age_s"): 7300}, {}, PASS, "by NVRTC, 2 hours ago"),
    (
        "smoke.compile",
        fault(0, "no-headers", "Python.h is missing"),
        {},
        FAIL,
        "helper in C cannot be built and used: Pyth",
    ),
    ("smoke.compile", {(*STEPS, 1, "words"): "as built before"}, {}, PASS, "extension in C++ (as built before), a"),
    ("smoke.compile", fault(1, "old-compiler"), {}, FAIL, "a PyTorch extension in C++ cannot be built and used: why"),
    # What the plan has not promised is no fault of the node.
    (
        "smoke.compile",
        fault(1, "old-compiler", "it has no c++20"),
        {"pytorch.extensions": False},
        PASS,
        "by NVRTC; without extension: it has no c++20, as the plan says",
    ),
    ("smoke.compile", fault(1, "no-headers"), {"pytorch.extensions": False}, FAIL, "cannot be built and used"),
    ("smoke.compile", fault(0, "no-compiler"), {}, FAIL, "Triton's helper in C cannot be built and used: why"),
    ("smoke.compile", fault(0, "no-libcuda"), {}, FAIL, "why"),
    (
        "smoke.compile",
        fault(1, "noexec", "mounted with noexec"),
        {},
        FAIL,
        "extension in C++ cannot be built and used: mou",
    ),
    ("smoke.compile", fault(1, "cache"), {}, FAIL, "why"),
    ("smoke.compile", fault(1, "full"), {}, FAIL, "why"),
    ("smoke.compile", fault(1, "bad-cc"), {}, FAIL, "why"),
    ("smoke.compile", fault(1, "other-machine"), {}, FAIL, "why"),
    ("smoke.compile", fault(1, "of a newer trainer"), {}, FAIL, "why"),
    ("smoke.compile", {**fault(2, "other", "off by 2"), OLD: "9.0"}, {}, FAIL, "off by 2"),
    ("smoke.compile", {**fault(2, "other", "off by 2"), OLD: "8.0"}, {}, FAIL, "off by 2"),
    ("smoke.compile", fault(2, "other", "off by 2"), {}, WARN, "Triton supports compute capability 8.0 and newer"),
    ("smoke.compile", fault(2, "timeout"), {}, FAIL, "why"),
    (
        "smoke.compile",
        {
            STEPS: [TRITON, EXTENSION, NVRTC],
            ("smoke", "compile", "left_out"): [LEFT_OUT],
        },
        {},
        PASS,
        "without torch.compile: not supported on Python 3.11",
    ),
    ("smoke.compile", {STEPS: [TRITON, EXTENSION, NVRTC]}, {}, UNKNOWN, "not tried: torch.compile"),
    ("smoke.compile", {STEPS: [EXTENSION, COMPILED, NVRTC]}, {}, UNKNOWN, "not tried: triton"),
    ("smoke.compile", {STEPS: []}, {}, UNKNOWN, "not tried: triton, extension, torch.compile, nvrtc"),
    ("smoke.compile", {("smoke", "compile"): None}, {}, UNKNOWN, "the smoke test compiled nothing"),
    ("smoke.compile", {("smoke", "compile", "device"): "cpu"}, {}, UNKNOWN, "compiled for cpu, not for cuda"),
    (
        "smoke.compile",
        {("smoke",): {**ON_CPU, "compile": {**COMPILE, "device": "cpu", "steps": [EXTENSION]}}},
        {"smoke_device": "cpu"},
        PASS,
        "a PyTorch extension in C++",
    ),
    # The report of a trainer that compiled nothing yet.
    (
        "smoke.compile",
        {("smoke",): {name: value for name, value in healthy_node.SMOKE.items() if name != "compile"}},
        {},
        UNKNOWN,
        "compile",
    ),
    ("smoke.compile", {**LAST}, {}, SKIP, f"in use: {ALICE}; the last one, 2 hours ago, ended with PASS"),
    ("smoke.compile", {**LAST, **fault(0, "no-headers")}, {}, FAIL, "why, 2 hours ago; now the smoke test was not run"),
]
