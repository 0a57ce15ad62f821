"""Bad input of every kind: exit code 125 and one line that says what is wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from gpu_run_machines import two_sockets, with_driver, write

REPOSITORY = Path(__file__).resolve().parents[3]
LIBRARY = "/usr/lib64/libjemalloc.so.2"
RUN = ["--", "true"]

# arguments, environment, policy, words of the message
CASES: list[tuple[list, dict, object, str]] = [
    ([], {}, {}, "no command given"),
    (["--"], {}, {}, "no command given"),
    (["-x", *RUN], {}, {}, "'-x' is not an option"),
    (["--gpu", "0", *RUN], {}, {}, "'--gpu' is not an option"),
    (["--gpus"], {}, {}, "--gpus needs a value"),
    (["--gpus", "--", "true"], {}, {}, "--gpus needs a value"),
    (["--gpus=", *RUN], {}, {}, "expected GPU numbers"),
    (["--gpus", "all", *RUN], {}, {}, "expected GPU numbers"),
    (["--gpus", "0,,1", *RUN], {}, {}, "expected GPU numbers"),
    (["--gpus", "-1", *RUN], {}, {}, "expected GPU numbers"),
    (["--gpus", "0, 1", *RUN], {}, {}, "expected GPU numbers"),
    (["--gpus", "0\n1", *RUN], {}, {}, "expected GPU numbers"),
    (["--gpus", "\u0661", *RUN], {}, {}, "expected GPU numbers"),
    (["--gpus", "9" * 4000, *RUN], {}, {}, "expected GPU numbers"),
    (["--gpus", "0,0", *RUN], {}, {}, "named twice"),
    (["--gpus", "GPU-00000001-aaaa,1", *RUN], {}, {}, "named twice"),
    (["--gpus", "GPU-77", *RUN], {}, {}, "GPU-77 names none of this host's GPUs, expected one; nvidia-smi -L"),
    (["--gpus", "GPU-", *RUN], {}, {}, "GPU- names 2 of this host's GPUs, expected one"),
    (["--gpus", "gpu-0", *RUN], {}, {}, "expected GPU numbers such as 0 or 0,1, or UUIDs"),
    (["--gpus", "2", *RUN], {}, {}, "there is no GPU 2; this host shows GPUs 0 to 1"),
    (["--gpus", "1", *RUN], {"CUDA_VISIBLE_DEVICES": "0"}, {}, "not among those that the caller may use, 0"),
    (["--gpus", "1", *RUN], {"CUDA_VISIBLE_DEVICES": ""}, {}, "not among those that the caller may use, none"),
    (["--gpus", "1", *RUN], {"SLURM_JOB_GPUS": "0"}, {}, "not among those that the caller may use, 0"),
    (["--node", "x", *RUN], {}, {}, "--node 'x': expected NUMA nodes such as 0 or 0,1"),
    (["--node", "", *RUN], {}, {}, "expected NUMA nodes"),
    (["--node", "1-0", *RUN], {}, {}, "expected NUMA nodes"),
    (["--node", "0-99999999999", *RUN], {}, {}, "expected NUMA nodes"),
    (["--node", "7", *RUN], {}, {}, "there is no node 7 with CPUs; this host shows 0-1"),
    (["--node", "1", *RUN], {}, {}, "the caller may use none of the CPUs of node 1"),
    (["--memory", "interleave", *RUN], {}, {}, "choose from preferred, bind, none"),
    (["--threads", "0", *RUN], {}, {}, "--threads '0': expected a whole number from 1"),
    (["--threads", "-2", *RUN], {}, {}, "expected a whole number from 1"),
    (["--threads", "1.5", *RUN], {}, {}, "expected a whole number from 1"),
    (["--threads", "9999999", *RUN], {}, {}, "expected a whole number from 1"),
    (["--allocator", "mimalloc", *RUN], {}, {}, "choose from calibrated, jemalloc, tcmalloc, none"),
    (["--allocator", "tcmalloc", *RUN], {}, {}, "there is no such file; install gperftools-libs"),
    (["--explain=yes", *RUN], {}, {}, "--explain takes no value"),
    (["--calibrate"], {}, {}, "--calibrate needs a command to measure"),
    (["--calibrate", "--explain", *RUN], {}, {}, "choose one"),
    (["--calibrate", "--rounds", "2", *RUN], {}, {}, "at least 6 are needed"),
    (["--calibrate", "--metric", "([0-9]+", *RUN], {}, {}, "is not a regular expression"),
    (["--calibrate", "--metric", "[0-9]+", *RUN], {}, {}, "in one pair of parentheses"),
    (["--calibrate", *RUN], {"MALLOC_CONF": "narenas:1"}, {}, "MALLOC_CONF is set and would be part of every arm"),
    (["--calibrate", "--lower-is-better", *RUN], {}, {}, "--lower-is-better goes with --metric"),
    (["--rounds", "9", *RUN], {}, {}, "go with --calibrate"),
    (["--user", "nobody", *RUN], {}, {}, "--user goes with --calibrate"),
    (["--calibrate", *RUN], {}, {}, "and not as root"),
    (RUN, {"LOCAL_RANK": "one"}, {}, "LOCAL_RANK='one': expected a whole number from 0"),
    (RUN, {"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "2"}, {}, "LOCAL_RANK=2 is not below LOCAL_WORLD_SIZE=2"),
    (RUN, {"LOCAL_RANK": "3", "LOCAL_SIZE": "2"}, {}, "LOCAL_RANK=3 is not below LOCAL_SIZE=2"),
    (RUN, {"LOCAL_WORLD_SIZE": "0"}, {}, "expected a whole number from 1"),
    (RUN, {"SLURM_LOCALID": "a", "SLURM_STEP_ID": "0"}, {}, "SLURM_LOCALID='a'"),
    (RUN, {"LD_PRELOAD": "./trace.so"}, {}, "./trace.so is relative"),
    (RUN, {"LD_PRELOAD": "lib/trace.so\nx"}, {}, "lib/trace.so"),
    (RUN, {"LD_PRELOAD": "/open/trace.so"}, {}, "/open/trace.so can be changed by other users"),
    (RUN, {"LD_PRELOAD": "/usr/lib/writable.so"}, {}, "/usr/lib/writable.so can be changed by other users"),
    (RUN, {}, "{", "is not JSON"),
    (RUN, {}, [], "expected an object, found list"),
    (RUN, {}, {"schema": 2}, "schema is 2; expected 1"),
    (RUN, {}, {"alocator": "none"}, "expected one of the keys allocator,"),
    (RUN, {}, {"allocator": "x\ny"}, "expected one of calibrated"),
    (RUN, {}, {"memory_policy": None}, "expected one of preferred, bind, none"),
    (RUN, {}, {"numa": "all"}, "expected one of calibrated, node, socket, none"),
    (RUN, {}, {"gpu_nodes": {"3b": 0}}, "expected NUMA nodes of PCI addresses"),
    (RUN, {}, {"gpu_nodes": {"0000:3b:00.0": -1}}, "expected NUMA nodes of PCI addresses"),
    (RUN, {}, {"gpu_nodes": {"0000:3b:00.0": True}}, "expected NUMA nodes of PCI addresses"),
    (RUN, {}, {"gpu_nodes": ["0000:3b:00.0"]}, "expected NUMA nodes of PCI addresses"),
    (RUN, {}, {"omp_num_threads": "4"}, "expected a whole number"),
    (RUN, {}, {"nccl": {"LD_PRELOAD": "/x.so"}}, "expected variables NCCL_..."),
    (RUN, {}, {"allocator": "jemalloc", "libraries": {"jemalloc": "jemalloc.so"}}, "an absolute path without spaces"),
    (
        RUN,
        {},
        {"allocator": "jemalloc", "libraries": {"jemalloc": "/opt/my lib.so"}},
        "an absolute path without spaces",
    ),
    (RUN, {}, {"allocator": "jemalloc", "libraries": {"jemalloc": "/open/trace.so"}}, "writable by nobody else"),
    (RUN, {}, {"allocator": "jemalloc", "libraries": {"jemalloc": LIBRARY}}, "is not an ELF library"),
]

CODE = """
import io, json, os, sys
root, cases = sys.argv[1], json.load(sys.stdin)
sys.path.insert(0, sys.argv[2])
from gpuwright.launch.launcher import main
answers, stderr = [], sys.stderr
policy_file = root + "/etc/gpuwright/runtime.json"
os.sched_setaffinity(0, {0})
for arguments, environment, policy, _ in cases:
    os.environ.clear()
    os.environ.update(environment, PATH="/usr/bin:/bin")
    with open(policy_file, "w") as file:
        file.write(policy if isinstance(policy, str) else json.dumps(policy))
    sys.stderr = io.StringIO()
    code = main(arguments, root=root)
    answers.append([code, sys.stderr.getvalue()])
    sys.stderr = stderr
print(json.dumps(answers))
"""


def test_every_bad_input_gives_one_line(tmp_path: Path, node_python: str) -> None:
    if os.getuid() != 0 or 0 not in os.sched_getaffinity(0):
        pytest.skip("needs root and CPU 0: libraries must belong to root, CPUs of node 1 must be out of reach")
    assert len(CASES) >= 50
    gpus = {"0000:3b:00.0": 0, "0000:af:00.0": 1}
    root = two_sockets(tmp_path, uuids=with_driver(gpus))
    write(root, "etc/gpuwright/runtime.json", "{}")
    for name, folder_mode, mode in (("open/trace.so", 0o777, 0o644), ("usr/lib/writable.so", 0o755, 0o666)):
        write(root, name, "x")
        (root / name).chmod(mode)
        (root / name).parent.chmod(folder_mode)
    write(root, LIBRARY.lstrip("/"), "/* GNU ld script */")
    (root / LIBRARY.lstrip("/")).parent.chmod(0o755)
    done = subprocess.run(
        [node_python, "-c", CODE, str(root), str(REPOSITORY / "tests/node_library")],
        input=json.dumps(CASES),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 and shutil.which("true"), done.stderr
    for case, (code, said) in zip(CASES, json.loads(done.stdout), strict=True):
        assert (code, said.count("\n"), said[:9]) == (125, 1, "gpu-run: "), (case, said)
        assert case[3] in said, (case, said)
        assert len(said) < 600 or "9" * 4000 in said
