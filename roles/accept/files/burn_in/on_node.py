# SPDX-License-Identifier: Apache-2.0
"""Run one part of the burn-in as the training user, watch the cards meanwhile, and print one record.

It is the toolkit's Python side on the node: Python 3.6 with the standard library and the toolkit's own library, which
starts programs in the training service's sandbox, with a deadline after which systemd ends all that they started.
Whatever goes wrong is part of the record; the exit status is 0 if a record was printed.
"""

import argparse
import json
import os
import socket
import sys
import threading
import time
from typing import Any, Dict, List, Optional, Tuple

sys.path.insert(0, "/usr/local/lib/gpuwright")

from gpuwright.gpu.nvidia_smi.ask import ask
from gpuwright.training.trainer_run import RunError, last_words, no_record, read_record, run_program

LAUNCHER = "/usr/local/bin/gpu-run"
PYTHON = "/opt/gpuwright/venvs/current/bin/python"
UNIT = "/etc/systemd/system/train-gan@.service"
HERE = os.path.dirname(os.path.abspath(__file__))
NVIDIA_SMI_SECONDS = 30.0
# At most this many looks at the cards, however long it takes; and none more often than this.
MOST_LOOKS, LEAST_PAUSE_S = 120, 10.0
FIELDS = ("clocks.sm", "clocks.mem", "vbios_version")
WATCHED = ("pci_id", "temperature_c", "power_draw_w", "throttle_reasons", "ecc_uncorrected_volatile")
IDENTITY = ("pci_id", "name", "serial", "uuid")


def parse(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("on_node.py", allow_abbrev=False)
    parser.add_argument("what", choices=("port", "node", "group"))
    parser.add_argument("--user", default="", help="training user")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to load the devices")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds after which the program is ended")
    parser.add_argument("--round", type=int, default=0, help="number of this step, which the record repeats")
    parser.add_argument("--nodes", type=int, default=1, help="nodes of the group")
    parser.add_argument("--node-rank", type=int, default=0, help="place of this node in its group")
    parser.add_argument("--ranks", type=int, default=1, help="processes on each node")
    parser.add_argument("--address", default="127.0.0.1", help="address of the group's first node")
    parser.add_argument(
        "--port", type=int, default=0, help="port of the group's first node; for `port`: 0 is a free one"
    )
    return parser.parse_args(arguments)


def find_port(wanted: int) -> Dict[str, Any]:
    """A TCP port on which nobody listens; it is free again when this returns."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", wanted))
            return {"port": probe.getsockname()[1], "problem": ""}
    except OSError as error:
        return {"port": 0, "problem": f"port {wanted} cannot be used: {error.strerror}"}


def command(options: argparse.Namespace) -> List[str]:
    """The command line of the program, for this node alone or as a part of a group."""
    ending = ["--device", options.device, "--seconds", f"{options.seconds:g}", "--timeout", f"{options.timeout:g}"]
    program = os.path.join(HERE, "burn_in.py")
    if options.what == "node":
        return [LAUNCHER, "--", PYTHON, program, "node"] + ending
    words = [LAUNCHER, "--", PYTHON, "-m", "torch.distributed.run"]
    words += [f"--nnodes={options.nodes}", f"--nproc-per-node={options.ranks}", f"--node-rank={options.node_rank}"]
    words += [f"--master-addr={options.address}", f"--master-port={options.port}"]
    return words + [program, "group"] + ending


def run(options: argparse.Namespace) -> Dict[str, Any]:
    """{record, problem, next, evidence}: what the program printed, or why it printed nothing."""
    if options.what == "group" and not options.port:
        # The others need not wait for a rendezvous that nobody holds.
        problem, action = "the first node of the group has no port to meet at", "set accept_port to one that is free"
        return {"record": None, "problem": problem, "next": action, "evidence": ""}
    words = command(options)
    try:
        done = run_program(words, options.user, options.timeout, UNIT if os.path.exists(UNIT) else "")
        record = read_record(done.finished.stdout)
        if record is None or done.finished.rc is None:
            raise no_record(done.finished, words, options.user, "accept_step_timeout")
    except RunError as error:
        return {"record": None, "problem": str(error), "next": error.action, "evidence": error.evidence}
    evidence = last_words(done.finished.stderr) if record["problems"] else ""
    return {"record": record, "problem": "", "next": "", "evidence": evidence}


def run_watched(options: argparse.Namespace) -> Dict[str, Any]:
    """The same, with a look at the cards before and after the program, and in regular intervals while it runs."""
    answer: Dict[str, Any] = {}
    worker = threading.Thread(target=lambda: answer.update(run(options)), daemon=True)
    looks: List[Dict[str, Any]] = [look(0.0)]
    begin = time.monotonic()
    worker.start()
    pause = max(LEAST_PAUSE_S, options.seconds / MOST_LOOKS)
    while worker.is_alive():
        worker.join(pause)
        if worker.is_alive():
            looks.append(look(time.monotonic() - begin))
    looks.append(look(time.monotonic() - begin))
    if not answer:
        answer = {"record": None, "problem": "the program's thread ended without an answer", "next": "", "evidence": ""}
    return dict(answer, looks=looks)


def look(seconds: float) -> Dict[str, Any]:
    """The cards at one moment: {at_s, gpus}, or {at_s, problem} if nvidia-smi does not say."""
    answer = ask(NVIDIA_SMI_SECONDS, "nvidia-smi", FIELDS)
    if not answer["reachable"]:
        return {"at_s": round(seconds, 1), "problem": str(answer["message"])}
    rows = []
    for gpu, values in with_fields(answer):
        row = {name: gpu.get(name) for name in WATCHED}
        rows.append(dict(row, clock_sm_mhz=values.get("clocks.sm"), clock_memory_mhz=values.get("clocks.mem")))
    return {"at_s": round(seconds, 1), "gpus": rows}


def with_fields(answer: Dict[str, Any]) -> List[Tuple[Dict[str, Any], Dict[str, Any]]]:
    """Each card of an answer with the fields that were asked for; no fields if nvidia-smi did not give them."""
    values = {row["pci_id"]: row["values"] for row in answer["fields"]}
    return [(gpu, values.get(gpu.get("pci_id"), {})) for gpu in answer["gpus"]]


def identity() -> Dict[str, Any]:
    """Driver, and name, serial number and VBIOS of each card: which parts were tried."""
    answer = ask(NVIDIA_SMI_SECONDS, "nvidia-smi", FIELDS)
    if not answer["reachable"]:
        return {"driver": None, "gpus": [], "problem": str(answer["message"])}
    rows = [
        dict({name: gpu.get(name) for name in IDENTITY}, vbios=values.get("vbios_version"))
        for gpu, values in with_fields(answer)
    ]
    return {"driver": answer.get("driver_version"), "gpus": rows, "problem": ""}


def main() -> int:
    options = parse()
    if options.what == "port":
        answer = find_port(options.port)
    elif options.what == "node" and options.device == "cuda":
        answer = dict(run_watched(options), cards=identity())
    else:
        answer = run(options)
    print(json.dumps(dict(answer, round=options.round)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
