# SPDX-License-Identifier: Apache-2.0
"""Ask nvidia-smi about its GPUs and interpret its answer; every kind of failure has a name and a next step.

Exit statuses are NVML's numbers (nvmlReturn_t, nvidia-smi(1)); nvidia-smi's messages come on standard output.
"""

from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

from ...host.bounded import Finished, run_bounded
from .values import LOST_WORDS, UNKNOWN, clean
from .xml import UnreadableXml, around_log, has_log, parse_log

DEFAULT_TIMEOUT_SECONDS = 30


class Meaning(NamedTuple):
    """A kind of failure: its name, what it is, and the next step."""

    status: str
    message: str
    action: str


INSTALL = "Run: ansible-playbook site.yml --tags system"
KERNEL_LOG = "dmesg | grep -iE 'nvrm|xid'"

NOT_LOADED = Meaning(
    "driver_not_loaded",
    "the NVIDIA driver is not loaded",
    f"Run: modprobe nvidia ; if it does not load, {KERNEL_LOG} and dkms status say why",
)
MISMATCH = Meaning(
    "version_mismatch",
    "the loaded driver and the installed libraries have different versions, as after an update without a reboot",
    "When nobody works on the node, run: systemctl reboot",
)
NO_DEVICES = Meaning(
    "no_devices",
    "the driver is loaded, but finds no GPU that it can drive",
    f"lspci -nnk -d 10de: ; {KERNEL_LOG}",
)
LOST = Meaning("gpu_lost", "a GPU has fallen off the PCI bus", f"{KERNEL_LOG}; then power the node off and on")
RESET = Meaning(
    "reset_required", "a GPU must be reset", "Stop what uses it, then run: nvidia-smi --gpu-reset ; or reboot."
)
NO_LIBRARY = Meaning("not_installed", "the driver's library libnvidia-ml.so is missing", INSTALL)
FORBIDDEN = Meaning("failed", "no permission to query the driver", "sudo nvidia-smi; ls -l /dev/nvidia*")

BY_EXIT_STATUS = {
    2: Meaning("failed", "nvidia-smi does not know the query that it was given", "nvidia-smi --help-query-gpu"),
    3: Meaning("failed", "the GPU does not support this query", "nvidia-smi -q"),
    4: FORBIDDEN,
    6: NO_DEVICES,
    8: Meaning("failed", "a power cable of a GPU is not connected", "check the GPU's power cables"),
    9: NOT_LOADED,
    10: Meaning("failed", "the driver has trouble with interrupts or timed out", KERNEL_LOG),
    12: NO_LIBRARY,
    13: Meaning(
        "failed",
        "nvidia-smi and libnvidia-ml.so have different versions",
        "rpm -qa '*nvidia*' | sort (Debian: dpkg -l '*nvidia*')",
    ),
    14: Meaning("failed", "the InfoROM of a GPU is corrupted", "nvidia-smi; have the GPU it names replaced"),
    15: LOST,
    16: RESET,
    17: Meaning("failed", "the operating system or a container keeps the GPU from being used", "ls -l /dev/nvidia*"),
    18: MISMATCH,
    19: Meaning("failed", "a GPU is in use by a user or program that has it exclusively", "fuser -v /dev/nvidia*"),
}

# Words to look for if the exit status says nothing: 0 with a sentence instead of XML, or 255. The first match counts.
BY_TEXT = (
    ("Driver/library version mismatch", MISMATCH),
    ("couldn't communicate with the NVIDIA driver", NOT_LOADED),
    (LOST_WORDS[0], LOST),
    (LOST_WORDS[1], LOST),
    ("No devices were found", NO_DEVICES),
    ("GPU requires reset", RESET),
    ("couldn't find libnvidia-ml", NO_LIBRARY),
    ("Insufficient Permissions", FORBIDDEN),
)


def query(timeout: float = DEFAULT_TIMEOUT_SECONDS, executable: str = "nvidia-smi") -> Dict[str, Any]:
    """The record that docs/parts/node.md calls nvidia_smi_info; `timeout` in seconds. Raises nothing."""
    return record_of(run_bounded([executable, "-q", "-x"], timeout), timeout)


def record_of(finished: Finished, timeout: float = DEFAULT_TIMEOUT_SECONDS) -> Dict[str, Any]:
    """The same for an answer that was given earlier: a `bounded.Finished`."""
    meaning, log = interpret(finished)
    if finished.timed_out:
        meaning = meaning._replace(message=f"nvidia-smi did not answer in {timeout:g} s")
    return _record(finished.rc, meaning, log)


def record_of_log(log: Dict[str, Any]) -> Dict[str, Any]:
    """The same for an answer in another form than XML, which `other_forms` has read."""
    return _record(0, *_meaning_of_log(log))


def _record(rc: Optional[int], meaning: Meaning, log: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    log = log or {}
    return {
        "reachable": bool(log) and meaning.status in ("ok", RESET.status, LOST.status),
        "rc": rc,
        "status": meaning.status,
        "message": meaning.message,
        "action": meaning.action,
        "driver_version": log.get("driver_version", UNKNOWN),
        "cuda_version": log.get("cuda_version", UNKNOWN),
        "gpus": log.get("gpus", []),
        "warnings": log.get("warnings", []),
    }


def interpret(finished: Finished) -> Tuple[Meaning, Optional[Dict[str, Any]]]:
    """(`Meaning`, parsed log or None) of a `bounded.Finished`."""
    if finished.missing:
        return Meaning("not_installed", finished.problem, INSTALL), None
    if finished.timed_out:
        action = "ps -o pid,stat,wchan:30,args -C nvidia-smi; {}; only a power cycle ends a process in state D"
        return Meaning("timeout", finished.problem, action.format(KERNEL_LOG)), None
    if finished.truncated:
        return Meaning("unreadable", finished.problem, "nvidia-smi -q -x | head"), None
    if finished.rc is None:
        return Meaning("failed", finished.problem, "ls -l $(which -a nvidia-smi)"), None
    if finished.rc != 0:
        return _meaning_of_failure(finished.rc, finished), None
    return _meaning_of_answer(finished)


def _meaning_of_failure(rc: int, finished: Finished) -> Meaning:
    # Words inside the XML are values, such as "Insufficient Permissions" for one feature; only those around it count.
    text = around_log(finished.stdout) + finished.stderr
    meaning = BY_EXIT_STATUS.get(rc) or _by_text(text) or _lost_inside(finished.stdout)
    if meaning is None:
        how = f"was killed by signal {-rc}" if rc < 0 else "failed"
        meaning = Meaning("failed", f"nvidia-smi {how}", KERNEL_LOG)
    return meaning._replace(message=_with_words(meaning.message, rc, text))


def _meaning_of_answer(finished: Finished) -> Tuple[Meaning, Optional[Dict[str, Any]]]:
    """An exit status of 0 proves nothing: the text may be a sentence instead of XML."""
    try:
        log = parse_log(finished.stdout)
    except UnreadableXml as error:
        text = finished.stdout + finished.stderr
        meaning = _lost_inside(text) if has_log(finished.stdout) else _by_text(text)
        if meaning is None:
            meaning = Meaning("unreadable", f"nvidia-smi's answer cannot be read: {error}", "nvidia-smi -q -x")
        return meaning._replace(message=_with_words(meaning.message, 0, text)), None
    beside = [line for line in around_log(finished.stdout).splitlines() if _by_text(line) is LOST]
    return _meaning_of_log(log, beside)


def _meaning_of_log(log: Dict[str, Any], beside: Sequence[str] = ()) -> Tuple[Meaning, Optional[Dict[str, Any]]]:
    lost = [gpu["pci_id"] for gpu in log["gpus"] if gpu["lost"]]
    if lost or beside:
        where = f"the driver has lost {', '.join(lost)}" if lost else clean(beside[0])
        return LOST._replace(message=f"{LOST.message}: {where}"), log
    count = len(log["gpus"])
    if count == 0:
        return NO_DEVICES, log
    if log["attached_gpus"] not in (count, UNKNOWN, None):
        message = f"nvidia-smi counts {log['attached_gpus']} GPUs, but describes {count}"
        return Meaning("unreadable", message, KERNEL_LOG), None
    waiting = [gpu for gpu in log["gpus"] if gpu.get("recovery_action") not in (None, UNKNOWN, "none")]
    if waiting:
        asks = ", ".join("{pci_id}: {recovery_action}".format(**gpu) for gpu in waiting)
        return RESET._replace(message=f"the driver asks for a recovery action on {asks}"), log
    return Meaning("ok", f"{count} GPU{'' if count == 1 else 's'}", ""), log


def _lost_inside(text: str) -> Optional[Meaning]:
    """What even a damaged answer tells: no other value can be mistaken for that of a lost card."""
    return LOST if any(words in text for words in LOST_WORDS) else None


def _by_text(text: str) -> Optional[Meaning]:
    for words, meaning in BY_TEXT:
        if words in text:
            return meaning
    return None


def _with_words(message: str, rc: Optional[int], text: str) -> str:
    words = clean(text)
    return f"{message} (exit status {rc}{': ' + words if words else ''})"
