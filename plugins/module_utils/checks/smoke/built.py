# SPDX-License-Identifier: Apache-2.0
"""The check of what the smoke test compiled: torch.compile and extensions build code where training runs."""

from ...verdict.by_hand import NODE, Hand
from ...verdict.check import (
    DRAIN,
    FAIL,
    STANDARD,
    Check,
    Outcome,
    failed,
    passed,
    unknown,
    warned,
)
from ...verdict.evidence import Evidence
from .training import CODE, age, where_run

INSTALL = "Run: ansible-playbook site.yml --tags framework,model,verify"
COMPILER = (
    "Run: ansible-playbook site.yml --tags system_cuda,model,verify ; the first installs the plan's compiler, "
    "the second names it in CXX of train-gan@.service, unless a drop-in of yours does"
)
DROP_IN = (
    "Name another folder in TRITON_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR and TORCH_EXTENSIONS_DIR in a drop-in of "
    "train-gan@.service (docs/security.md)"
)
# By the codes of gan_trainer/compiling/faults.py. For what the toolkit installs, the check's own action stands.
ACTIONS = {
    "old-compiler": COMPILER,
    "bad-cc": "Give CC and CXX the name of one program each, or remove them from train-gan@.service and its drop-ins "
    "# A gcc-toolset that gpu-plan names comes by: ansible-playbook site.yml --tags system_cuda",
    "no-libcuda": "Run: ldconfig ; if ldconfig -p shows no libcuda.so.1, look at driver.libraries",
    "noexec": DROP_IN,
    "cache": DROP_IN,
    "full": "Free space where the message says, or " + DROP_IN[0].lower() + DROP_IN[1:],
}
BY_HAND_ACTION = "Repeat it by hand: sudo -u trainer gpu-run -- /opt/gpuwright/venvs/current/bin/python -m " + (
    "gan_trainer.compiling --device cuda"
)
UNNAMED = ("other", "killed", "timeout", "other-machine", "nvrtc")
# With these, a GPU can be computed on; what follows them says whether torch.compile really does.
NEEDED = {"cuda": ("triton", "extension", "torch.compile", "nvrtc"), "cpu": ("extension",)}
# Triton has no tensor cores below, and its newer releases name 8.0 as the oldest that they support.
FULLY_SUPPORTED = (8, 0)


@where_run
def compiling(readings: Evidence, expected: Evidence) -> Outcome:
    """What torch.compile, Triton and extensions build was built and used as training runs are, on the wanted device.

    On a GPU: Triton's helper with the driver's library, a PyTorch extension in C++, a function under torch.compile and
    one that PyTorch compiles by NVRTC. A step that this PyTorch or card does not offer is named, and so is an extension
    for which the plan has found no compiler. WARN where torch.compile alone fails on a card older than compute
    capability 8.0, for which Triton promises nothing.
    """
    wanted = expected.text("smoke_device")
    if readings.absent("smoke", "compile"):
        return unknown("nothing-compiled", "the smoke test compiled nothing", expected="built and used")
    record = readings.at("smoke", "compile")
    if record.one_of(("cuda", "cpu"), "device") != wanted:
        return unknown(
            "other-device", f"it was compiled for {record.text('device')}, not for {wanted}", expected="built and used"
        )
    steps, left_out = record.each("steps"), {part.text("name"): part.text("why") for part in record.each("left_out")}
    for step in list(steps):
        code = step.text("fault")
        unpromised = code == "old-compiler" and not expected.flag("plan", "pytorch", "extensions")
        if unpromised and step.text("name") == "extension":
            left_out["extension"] = f"{step.text('words')}, as the plan says"
            steps.remove(step)
        elif code != "none":
            return _faulty(readings, step, code, wanted)
    tried = [step.text("name") for step in steps]
    lost = [name for name in NEEDED[wanted] if name not in tried and name not in left_out]
    if lost or not steps:
        return unknown("not-tried", f"not tried: {', '.join(lost) or 'anything'}", expected="built and used")
    words = ", ".join(step.text("what") + (f" ({step.wish('words')})" if step.wish("words") else "") for step in steps)
    words += "".join(f"; without {name}: {left_out[name]}" for name in sorted(left_out))
    return passed("built and used", "built and used", words + age(readings.at("smoke")))


def _faulty(readings: Evidence, step: Evidence, code: str, wanted: str) -> Outcome:
    # A trainer that is newer than the checks may say something that is no word.
    known = code if CODE.fullmatch(code) else "other"
    words = f"{step.text('what')} cannot be built and used: {step.text('words')}"
    action = ACTIONS.get(code, BY_HAND_ACTION.replace("cuda", wanted) if code in UNNAMED else "")
    if step.text("name") == "torch.compile" and code == "other":
        cards = [gpu.version("compute_capability") for gpu in readings.each("probe", "gpus")]
        if any(tuple(map(int, card.split("."))) < FULLY_SUPPORTED for card in cards):
            return warned(
                known, code, "built and used", words + "; Triton supports compute capability 8.0 and newer", action
            )
    return failed(known, code, "built and used", words, action)


CHECKS = (
    Check(
        id="smoke.compile",
        layer="framework",
        level=STANDARD,
        severity=FAIL,
        remedy=DRAIN,
        question="Can torch.compile and extensions build what they need?",
        judge=compiling,
        needs_gpu=False,
        action=INSTALL,
    ),
)

# By hand: who acts, and what is seen afterwards.
BY_HAND = {
    "smoke.compile": Hand(NODE, "gan_trainer.compiling, run as the training user, exits with 0"),
}
