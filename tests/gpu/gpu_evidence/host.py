"""Parts about the host: what machine it is, the scan with its raw answers, the plan, the compilers."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import sys
import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

from . import places
from .context import Context, Unable, fault_of

TOOLS = ("nvidia-smi", "numactl", "gcc", "g++", "make", "ninja", "nvcc", "journalctl", "systemctl", "dnf", "apt-get")
BUNDLE = "bundle.tar.gz"
REPORT = "report.json"
# Lines of the kernel's log that concern a card, so that one which nobody reads would be a gap.
OF_A_GPU = re.compile(r"NVRM|nvidia|nouveau|nvswitch|nvlink|Xid", re.IGNORECASE)
MOST_ROWS = 60


def machine(context: Context) -> None:
    """What this machine, its PyTorch and its cards are; all other parts go by it."""
    from gpuwright.gpu.nvidia_smi.query import query
    from gpuwright.readings.kernel_log.log import read_container

    context.keep(
        python=platform.python_version(),
        kernel=platform.release(),
        processor=processor(),
        cpus=len(os.sched_getaffinity(0)),
        root=os.geteuid() == 0,
        container=read_container("/"),
        tools={name: bool(shutil.which(name)) for name in TOOLS},
    )
    smi = query(min(20.0, context.left(10.0)), "nvidia-smi")
    context.keep(smi=about_cards(smi))
    torch: dict[str, Any] = {"problem": "no interpreter with PyTorch was found; name one with --python"}
    if context.python:
        torch, problem = context.torch("evidence_about.py")
        torch["problem"] = problem or failed(torch.get("torch")) or failed(torch.get("gpus"))
        for name in ("torch", "gpus"):
            torch[name] = None if failed(torch.get(name)) else torch.get(name)
        torch["trainer_problem"] = failed(torch.pop("trainer", None))
    context.keep(torch=torch)
    if torch["problem"]:
        context.lack(torch["problem"])
    version = (torch.get("torch") or {}).get("version")
    context.table(
        "This machine",
        ["what", "value"],
        [
            ["processor", f"{processor()}, {len(os.sched_getaffinity(0))} CPUs"],
            ["kernel", platform.release()],
            ["driver", smi.get("driver_version") if smi.get("reachable") else f"none: {smi.get('message')}"],
            ["cards", ", ".join(str(gpu.get("name")) for gpu in smi.get("gpus") or []) or "none"],
            ["PyTorch", version or torch["problem"]],
            ["cards that PyTorch uses", ", ".join(gpu["name"] for gpu in torch.get("gpus") or []) or "none"],
            ["beside it", ", ".join(f"{n} {v}" for n, v in (torch.get("modules") or {}).items() if v) or "nothing"],
            ["missing here", ", ".join(name for name in TOOLS if not shutil.which(name)) or "nothing"],
        ],
    )


def failed(value: Any) -> str:
    return str(value["failed"]) if isinstance(value, dict) and "failed" in value else ""


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def about_cards(smi: dict[str, Any]) -> dict[str, Any]:
    """Driver, cards, and who uses them: speeds on a card that is in use are none."""
    from gpuwright.training.performance import in_use

    found = {"reachable": smi.get("reachable"), "message": smi.get("message"), "driver": smi.get("driver_version")}
    cards = [{key: gpu.get(key) for key in ("pci_id", "name", "architecture")} for gpu in smi.get("gpus") or []]
    try:
        busy: Any = in_use(smi.get("gpus") or [])
    except ValueError as error:
        busy = [str(error)]
    return {**found, "cards": cards, "busy": busy}


# -- scan


def scan(context: Context) -> None:
    """gpu-doctor's scan of this machine and every raw answer behind it, masked, as the bundle that it writes."""
    from gpuwright.doctor.bundle.make import make_bundle
    from gpuwright.doctor.scan.examine import scan as examine

    file = context.folder / BUNDLE
    file.unlink(missing_ok=True)
    made = make_bundle(str(file), "/", "standard", True, lambda expected: {}, "", lambda: examine("/", "standard"))
    members = unpacked(file)
    report = json.loads(members[REPORT])
    counts = Counter(check["status"] for check in report["checks"])
    context.keep(verdict=report["verdict"], counts=counts, report=report["readings"]["probe"], bundle=BUNDLE)
    context.say(f"Verdict of the scan: {report['verdict']} ({', '.join(f'{n} {word}' for word, n in counts.items())}).")
    bad = [check for check in report["checks"] if check["status"] not in ("PASS", "SKIP")]
    context.table("What is wrong", ["check", "", "why"], [[c["id"], c["status"], c["message"][:200]] for c in bad])
    rows = [[row["file"], row["bytes"], row["problem"] or "whole"] for row in made.rows]
    context.table(f"Raw answers in {BUNDLE}", ["file", "bytes", "state"], rows)
    fields = unknown_fields(members.get("nvidia-smi/query.xml", b"").decode("utf-8", "replace"))
    context.keep(unknown_fields=fields)
    context.table("Fields of nvidia-smi that nothing here knows", ["field", "value"], [list(row) for row in fields])
    lines = unknown_lines(members.get("kernel.log", b"").decode("utf-8", "replace"))
    context.keep(unknown_lines=lines)
    context.table(
        "Lines of the kernel's log about GPUs that nothing reads", ["times", "line"], [list(x) for x in lines]
    )


def unpacked(file: Path) -> dict[str, bytes]:
    """{name: content} of a bundle."""
    found = {}
    with tarfile.open(file) as archive:
        for member in archive:
            stream = archive.extractfile(member)
            found[member.name.partition("/")[2]] = stream.read() if stream else b""
    return found


def unknown_fields(text: str) -> list[tuple[str, str]]:
    """Leaves of the answer that are neither judged nor left alone with a reason (docs/nvidia-smi-fields.md)."""
    from xml.etree import ElementTree

    sys.path.insert(0, str(places.REPOSITORY / "tests/deep"))
    # The one in tests/deep; the checker takes it for the tool of that name.
    from nvidia_smi_fields import rule_of  # type: ignore[attr-defined]

    begin, end = text.find("<nvidia_smi_log"), text.rfind("</nvidia_smi_log>")
    if begin < 0 or end < begin:
        return []
    found: dict[str, str] = {}

    def walk(element: ElementTree.Element, path: str) -> None:
        for child in element:
            here = f"{path}/{child.tag}" if path else child.tag
            if len(child):
                walk(child, here)
                continue
            try:
                rule_of(here)
            except KeyError:
                found.setdefault(here, (child.text or "").strip()[:80])

    try:
        for gpu in ElementTree.fromstring(text[begin:end] + "</nvidia_smi_log>").findall("gpu"):
            walk(gpu, "")
    except ElementTree.ParseError as error:
        return [("the answer is damaged", str(error))]
    return list(found.items())[:MOST_ROWS]


def unknown_lines(text: str) -> list[tuple[int, str]]:
    """(how often, line) of the log's lines about GPUs that no row and no rule of ours reads; numbers become #."""
    from gpuwright.readings.kernel_log.events import KernelEvents
    from gpuwright.readings.kernel_log.records import Line
    from gpuwright.readings.kernel_log.saved import read_saved
    from gpuwright.readings.kernel_log.table import row_of

    counted: Counter[str] = Counter()
    for line in read_saved(text).lines:
        if not isinstance(line, Line) or not OF_A_GPU.search(line.text) or row_of(line.text):
            continue
        events = KernelEvents()
        events.feed(1, line.text, line.speaker)
        seen = events.result()
        if not any(seen[name] for name in ("xids", "sxids", "findings")):
            counted[re.sub(r"[0-9]+", "#", line.text)[:200]] += 1
    return [(number, words) for words, number in counted.most_common(MOST_ROWS)]


# -- plan


def plan(context: Context) -> None:
    """What the planner chooses for this host, beside what it has."""
    file = context.folder / BUNDLE
    probe = context.found.get("scan", {}).get("report")
    if not isinstance(probe, dict) or "unreadable" in probe:
        raise Unable(f"the scan left no facts of this host{'' if file.exists() else f': there is no {BUNDLE}'}")
    asked = context.work / "host.json"
    asked.write_text(json.dumps({"readings": {"probe": probe}}))
    collection = places.folder_of(
        places.REPOSITORY / "collections", "ansible_collections/gpuwright/node", places.REPOSITORY
    )
    words = [str(places.REPOSITORY / "tools/gpu-plan"), "--host", str(asked), "--json"]
    why = []
    for python in dict.fromkeys([sys.executable, context.python]):
        if not python:
            continue
        given = f"{collection}{os.pathsep}{places.REPOSITORY / 'collections'}"
        done = context.run(["/usr/bin/env", f"PYTHONPATH={given}", python, *words])
        try:
            answer = json.loads(done.stdout)
            break
        except ValueError:
            why.append(fault_of(done))
    else:
        hint = f"ask later, on any machine with PyYAML: tools/gpu-plan --host {REPORT} of {BUNDLE}"
        raise Unable(f"no interpreter here can ask the planner ({'; '.join(why)}); {hint}")
    context.keep(plan=answer)
    if "conflicts" in answer:
        context.say("There is no plan for this host: " + " ".join(str(row["what"]) for row in answer["conflicts"]))
        return
    rows = changes(answer, probe, context.facts.get("torch") or {})
    context.table("The plan, and what it would change", ["part", "now", "planned", "why"], rows)


def changes(plan: dict[str, Any], probe: dict[str, Any], torch: dict[str, Any]) -> list[list[Any]]:
    """Rows: part, what is there, what is planned, whether that is a change."""
    loaded = (probe.get("nvidia") or {}).get("loaded") or {}
    version = (torch.get("torch") or {}).get("version") or "none"
    python = ".".join(str(torch.get("python") or "none").split(".")[:2])
    now = {
        "driver": (str(loaded.get("version") or "none").split(".")[0], plan["driver"]["branch"]),
        "kernel module": (loaded.get("flavour") or "none", plan["driver"]["flavour"]),
        "Python": (python, plan["python"]["version"]),
        "PyTorch": (version, f"{plan['pytorch']['version']}+{plan['pytorch']['build']}"),
    }
    return [[name, *pair, "as it is" if pair[0] == pair[1] else "changes"] for name, pair in now.items()]


# -- compilers


def compilers(context: Context) -> None:
    """What compiles code on this host, and whether torch.compile and a C++ extension really come out of it."""
    rows = []
    for name in ("gcc", "g++", "cc", "ld", "ninja", "nvcc", "ptxas"):
        done = context.run([name, "--version"], 10.0)
        lines = done.stdout.strip().splitlines()
        rows.append([name, (lines[-1 if name in ("nvcc", "ptxas") else 0] if lines else done.problem)[:120]])
    done = context.run(["ldconfig", "-p"], 10.0)
    libraries = [line.split("=>")[-1].strip() for line in done.stdout.splitlines() if "libcuda.so" in line]
    rows.append(["libcuda.so", ", ".join(libraries) or "not known to ldconfig"])
    context.table("What compiles here", ["program", "version"], rows)
    # Its own deadlines would end no step before this part's share does.
    each = f"{max(context.left(), 1.0):.0f}"
    words = ("--device", context.device, "--seconds", each, "--json")
    answer, problem = context.module("-m", "gan_trainer.compiling", *words)
    if not answer:
        raise Unable(problem)
    context.keep(compiling=answer)
    told = []
    for step in answer["steps"]:
        wrong = step["words"] if step["fault"] != "none" else ""
        told.append([step["what"], wrong or f"works, {step['seconds']:.1f} s"])
        if wrong:
            context.lack(f"{step['what']}: {wrong}")
    told += [[left["name"], f"left out: {left['why']}"] for left in answer["left_out"]]
    context.table("What came out of it", ["what", "result"], told)
