"""A verdict names the first cause: what follows from it is folded under it, and what has its own reason never is."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable

import healthy_node
import pytest
from ansible_collections.gpuwright.node.plugins.plugin_utils.page.findings import to_do
from gpuwright.checks.all import CHECKS, run_checks
from gpuwright.checks.waivers import rules
from gpuwright.doctor.metrics import nagios_line
from gpuwright.doctor.report_text import finding_lines, report_lines
from gpuwright.verdict import check as verdict_check
from gpuwright.verdict.causes import CAUSES, consequences, first_causes, own_findings, with_causes
from gpuwright.verdict.check import FAIL, PASS, UNKNOWN, WARN
from gpuwright.verdict.commands import lines_of

IDS = [check.id for check in CHECKS]
XID_79 = {"code": 79, "pci_id": "0000:3b:00", "count": 1, "first_s": 9, "last_s": 9, "text": "Xid 79", "closed_by": ""}


class Node:
    """Readings, expectations and smoke test of a healthy node, to be broken."""

    def __init__(self) -> None:
        self.readings, self.expectations = healthy_node.readings(), healthy_node.expectations()
        self.smoke: dict | None = healthy_node.smoke()

    def smoke_ends(self, problem: str, code: str) -> None:
        """The smoke test has no device, for this reason."""
        assert self.smoke is not None
        self.smoke.update(problems=[problem], problem_codes=[code], devices=[])

    def checks(self) -> list[dict]:
        return run_checks(self.readings, self.expectations, self.smoke)

    def silent(self, status: str, message: str) -> None:
        """nvidia-smi has no answer, so PyTorch has no GPU and the smoke test none either."""
        self.readings["nvidia_smi"].update(
            reachable=False, status=status, message=message, action="x", gpus=[], driver_version="unknown"
        )
        self.no_cuda()

    def no_cuda(self) -> None:
        self.readings["venv"]["torch"].update(
            cuda_available=False, devices=[], product="right on cpu", architectures=[]
        )
        self.smoke_ends("CUDA is not available", "no-gpu")


def not_loaded(node: Node) -> None:
    node.readings["probe"]["nvidia"].update(loaded=None, device_nodes=[], uvm_loaded=False)
    node.readings["probe"]["gpus"][0]["bound_driver"] = None
    node.readings["probe"]["reboot"] = {"required": True, "reasons": ["no module"], "codes": ["not-loaded"]}
    node.readings["device_nodes"] = {}
    node.readings["persistenced"] = "failed"
    node.silent("driver_not_loaded", "the nvidia module is not loaded")


def nouveau(node: Node) -> None:
    not_loaded(node)
    node.readings["probe"]["nouveau_loaded"] = True
    node.readings["probe"]["gpus"][0]["bound_driver"] = "nouveau"


def updated(node: Node) -> None:
    node.readings["probe"]["nvidia"]["user_space"] = "580.99.01"
    libraries = node.readings["driver_files"]["libraries"]
    node.readings["driver_files"]["libraries"] = dict.fromkeys(libraries, "580.99.01")
    node.readings["probe"]["reboot"] = {"required": True, "reasons": ["it is newer"], "codes": ["other-libraries"]}
    node.silent("version_mismatch", "Driver/library version mismatch")


def gone(node: Node) -> None:
    node.readings["probe"]["gpus"] = []
    node.readings["persistenced"] = "failed"
    del node.readings["device_nodes"]["/dev/nvidia0"]
    node.silent("no_devices", "No devices were found")


def one_of_two(node: Node) -> None:
    node.expectations["gpu_count"] = 2


def fallen(node: Node) -> None:
    node.readings["kernel_log"]["xids"] = [XID_79]
    node.silent("gpu_lost", "GPU is lost")


def without_uvm(node: Node) -> None:
    node.readings["probe"]["nvidia"]["uvm_loaded"] = False
    del node.readings["device_nodes"]["/dev/nvidia-uvm"]
    node.no_cuda()


def without_environment(node: Node) -> None:
    node.readings.update(venv=None, environment=None, stamp=None)
    node.smoke = None


def without_torch(node: Node) -> None:
    missing = "ModuleNotFoundError: No module named 'torch'"
    node.readings["venv"] = {"python": "3.11", "imports": {"torch": missing, "numpy": "ok", "gan_trainer": missing}}
    node.readings["venv"]["versions"] = {"numpy": "2.3.1"}
    first = {"distribution": "torch", "path": "torch/__init__.py", "problem": "is missing"}
    node.readings["environment"].update(problem_count=1, damaged=["torch"], problems=[first])
    node.smoke_ends("torch cannot be imported: " + missing, "cannot-import")


def without_user(node: Node) -> None:
    node.readings["training_user"] = None
    for name in ("device_nodes", "venv"):
        node.readings[name] = {"unreadable": "there is no user trainer", "code": "no-user"}
    node.smoke_ends("there is no user trainer", "no-user")


def without_trainer(node: Node) -> None:
    node.readings["venv"]["imports"]["gan_trainer"] = "ModuleNotFoundError: No module named 'gan_trainer'"
    node.smoke_ends("No module named gan_trainer", "no-trainer")


def empty_plan(node: Node) -> None:
    node.expectations["plan"]["driver"].update(branch="", flavour="")
    node.expectations["plan"]["cuda"]["version"] = ""


def full(node: Node) -> None:
    node.readings["file_systems"][5]["free_mib"] = 0
    node.smoke_ends("OSError: [Errno 28] No space left on device", "no-room")


def untested(node: Node) -> None:
    node.smoke = None


def hanging(node: Node) -> None:
    """GSP timeouts: the card does not answer, and who asks it hangs."""
    line = (
        "NVRM: Xid (PCI:0000:3b:00): 119, pid=4711, name=python, Timeout after 6s of waiting for RPC response from GPU0"
    )
    node.readings["kernel_log"]["xids"] = [{**XID_79, "code": 119, "count": 9, "text": line}]
    node.readings["host"]["blocked_tasks"]["nvidia"] = ["nvidia-smi", "python"]
    node.silent("timeout", "nvidia-smi did not answer in 30 s")


def silent_and_hanging(node: Node) -> None:
    node.readings["host"]["blocked_tasks"]["nvidia"] = ["nvidia-smi"]
    node.silent("timeout", "nvidia-smi did not answer in 30 s")


def without_program(node: Node) -> None:
    node.readings["driver_files"]["nvidia_smi"] = None
    node.silent("not_installed", "nvidia-smi is not installed (not found in PATH)")


def without_launcher(node: Node) -> None:
    node.readings["launcher"]["file"] = None
    node.readings["permissions"]["missing"] = ["/usr/local/bin/gpu-run"]


def without_daemon(node: Node) -> None:
    node.readings["persistenced"] = "inactive"
    row = {**node.readings["tuning"][0], "name": "gpu_power_limit", "wanted": "250", "found": "200"}
    node.readings["tuning"] = [row]
    node.readings["nvidia_smi"]["gpus"][0]["power_limit_w"] = 200


def rotated(node: Node) -> None:
    node.readings["kernel_log"]["from_boot"] = False


def cut_off(node: Node) -> None:
    node.readings["kernel_log"]["whole"] = False


def without_log(node: Node) -> None:
    node.readings["kernel_log"]["lines"] = 0


BROKEN: list[tuple[Callable[[Node], None], str, int]] = [
    (not_loaded, "driver.reachable", 60),
    (nouveau, "driver.nouveau_absent", 60),
    (updated, "driver.module_matches_user_space", 50),
    (gone, "gpu.count", 50),
    (one_of_two, "gpu.count", 7),
    (fallen, "kernel.gpu_lost", 50),
    (without_uvm, "driver.uvm", 5),
    (without_environment, "framework.files", 9),
    (without_torch, "framework.files", 7),
    (without_user, "host.training_user", 8),
    (without_trainer, "model.trainer_installed", 1),
    (empty_plan, "gpu.plan", 2),
    (full, "host.disk_space", 1),
    (untested, "smoke.amp", 2),
    (hanging, "kernel.xid", 50),
    (silent_and_hanging, "driver.reachable", 50),
    (without_program, "driver.nvidia_smi_file", 50),
    (without_launcher, "runtime.launcher", 1),
    (without_daemon, "driver.persistence", 2),
    (rotated, "kernel.log_whole", 10),
    (cut_off, "kernel.log_whole", 10),
    (without_log, "kernel.log_whole", 10),
]


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("act", [row[0] for row in BROKEN])
def test_nothing_is_cut_and_no_command_is_broken_on_any_terminal(act, columns):
    node = Node()
    act(node)
    checks = node.checks()
    lines = report_lines(checks, columns)
    told = [line for line in lines if line.startswith(("FAIL", "WARN", "UNKNOWN"))]
    assert len(told) == len(own_findings(checks))
    text = " ".join(" ".join(lines).split())
    for check in own_findings(checks):
        assert " ".join(f"{check['id']}: {check['message']}".split()) in text
        commands, *words = lines_of(check["action"])
        assert all(" ".join(part.split()) in text for part in [commands, *words])
        for command in commands.split(" ; "):
            assert any(command in line for line in lines) or ". " in command, command


@pytest.mark.parametrize(("act", "cause", "least"), BROKEN, ids=lambda value: getattr(value, "__name__", None))
def test_one_fault_is_one_finding(act, cause, least):
    node = Node()
    act(node)
    checks = node.checks()
    assert [check["id"] for check in own_findings(checks)] == [cause]
    assert len(consequences(checks, cause)) >= least
    assert len(finding_lines(checks)) == 1 and f" {cause}: " in finding_lines(checks)[0]
    text = "\n".join(report_lines(checks))
    assert text.count("-> ") == 1 and "more because of this" in text
    verdict = next(check["status"] for check in checks if check["id"] == cause)
    assert f" {cause}: " in nagios_line(checks, verdict)


@pytest.mark.parametrize(("act", "cause", "least"), BROKEN, ids=lambda value: getattr(value, "__name__", None))
def test_another_fault_beside_it_stands_for_itself(act, cause, least):
    """Faults that no missing driver, environment or user explains."""
    node = Node()
    act(node)
    node.readings["host"]["clock_source"] = "hpet"
    node.readings["permissions"].update(unsafe_count=1, unsafe=["/opt/gpuwright/x is writable for others"])
    node.readings["cuda"]["nvcc"] = "11.8"
    if node.smoke is not None and act in (without_uvm, one_of_two, empty_plan):
        node.smoke.update(problems=["cuda:0 amp: a loss was not finite"], problem_codes=["wrong-result"])
    own = {check["id"] for check in own_findings(node.checks())}
    wanted = {"host.clock_source", "model.permissions"}
    wanted |= set() if act is empty_plan else {"cuda.version"}
    wanted |= {"smoke.amp"} if act in (without_uvm, one_of_two, empty_plan) else set()
    assert own == {cause} | wanted


def test_a_healthy_node_has_neither():
    checks = Node().checks()
    assert own_findings(checks) == [] and finding_lines(checks) == []
    assert not any("caused_by" in check for check in checks)


@pytest.mark.parametrize("row", CAUSES, ids=lambda row: f"{row.cause}-{row.effects[0]}")
def test_every_row_speaks_of_checks_that_there_are(row):
    assert row.cause.partition(":")[0] in IDS
    assert all(fnmatch.filter(IDS, pattern.partition(":")[0]) for pattern in row.effects)


def record(name: str, status: str, code: str = "ok", items: tuple = (), **more: object) -> dict:
    found = {"id": name, "status": status, "code": code, "items": list(items), "message": f"in words, {code}"}
    return {**found, "action": "x", "value": None, "expected": None, **more}


def test_a_circle_has_a_beginning():
    """Both rows that explain each other's check apply: one of the two is told."""
    checks = [
        record("gpu.count", FAIL, "none"),
        record("driver.reachable", FAIL, "no-devices"),
        record("kernel.gpu_lost", FAIL, "lost"),
    ]
    causes = first_causes(checks)
    assert len(own_findings(with_causes(checks))) >= 1 and set(causes.values()).isdisjoint(causes)


def test_what_is_worse_than_its_cause_is_told_itself():
    """The cause was accepted by root and is a WARN: the UNKNOWN decides the verdict, and somebody must see it."""
    cause = record("driver.reachable", WARN, "failed", waived={"by": "acknowledgement", "status": FAIL})
    checks = with_causes([cause, record("gpu.bar1", UNKNOWN, "silent")])
    assert [check["id"] for check in own_findings(checks)] == ["driver.reachable", "gpu.bar1"]
    assert "gpu.bar1" in nagios_line(checks, UNKNOWN)


def test_a_cause_that_passes_explains_nothing():
    checks = [record("driver.reachable", PASS), record("gpu.bar1", UNKNOWN, "silent")]
    assert first_causes(checks) == {}


def test_findings_are_as_wide_as_the_terminal_and_never_cut():
    message = "a message of many words that goes on and on " * 6
    action = "Run: a-command --with=a-long-option " * 8
    checks = [record("gpu.bar1", FAIL, expected="x" * 30, value="y" * 30) | {"action": action, "message": message}]
    for columns in (40, 80, 200):
        lines = report_lines(checks, columns)
        told = [line for line in lines[2:] if "-> " not in line]
        assert max(map(len, told)) <= columns
        assert " ".join(" ".join(lines).split()).count("goes on and on") == 6
        assert ("-> " + action) in "\n".join(lines)
        assert "y" * 30 in "\n".join(lines)
    assert max(map(len, report_lines(checks, None))) > 200


def two_cards(node: Node) -> None:
    """A second card, healthy in all that the checks below ask."""
    second = "0000:af:00.0"
    node.expectations["gpu_count"] = 2
    node.readings["probe"]["gpus"].append({**node.readings["probe"]["gpus"][0], "pci_id": second})
    node.readings["nvidia_smi"]["gpus"].append({**node.readings["nvidia_smi"]["gpus"][0], "pci_id": second})
    node.readings["device_nodes"]["/dev/nvidia1"] = dict(node.readings["device_nodes"]["/dev/nvidia0"])
    node.readings["card_nodes"].append({"pci_id": second, "node": "/dev/nvidia1"})


def second_is_lost(node: Node) -> None:
    del node.readings["nvidia_smi"]["gpus"][1]
    node.readings["kernel_log"]["xids"] = [{**XID_79, "pci_id": "0000:af:00"}]


def causes_of(node: Node) -> dict[str, str | None]:
    return {check["id"]: check.get("caused_by") for check in node.checks()}


def test_a_lost_card_explains_its_own_device_node_and_not_another_cards():
    for gone_node, cause in (("/dev/nvidia1", "kernel.gpu_lost"), ("/dev/nvidia0", None)):
        node = Node()
        two_cards(node)
        second_is_lost(node)
        del node.readings["device_nodes"][gone_node]
        found = causes_of(node)
        assert found["driver.device_nodes"] == cause, gone_node
        assert found["gpu.count"] == "kernel.gpu_lost"


def test_a_lost_card_explains_no_second_missing_node():
    node = Node()
    two_cards(node)
    node.expectations["gpu_count"] = 3
    node.readings["card_nodes"] = []
    del node.readings["device_nodes"]["/dev/nvidia1"]
    found = causes_of(node)
    assert found["gpu.count"] is None and found["driver.device_nodes"] is None
    node.readings["device_nodes"]["/dev/nvidia1"] = dict(node.readings["device_nodes"]["/dev/nvidia0"])
    assert causes_of(node)["driver.device_nodes"] == "gpu.count"


def test_another_cards_xid_stands_beside_a_lost_card():
    node = Node()
    two_cards(node)
    second_is_lost(node)
    assert causes_of(node)["kernel.xid"] == "kernel.gpu_lost"
    node.readings["kernel_log"]["xids"].append({**XID_79, "code": 48, "text": "Xid 48, DBE"})
    assert causes_of(node)["kernel.xid"] is None


@pytest.mark.parametrize("product", ["WRONG on one of cpu, cuda:0", "WRONG on one of cpu"])
def test_a_wrong_result_is_never_folded(product):
    """Also where a card is missing, a device node cannot be used, and the driver is silent at the same time."""
    node = Node()
    node.expectations["gpu_count"] = 2
    node.readings["device_nodes"]["/dev/nvidia0"].update(readable=False)
    node.silent("timeout", "no answer")
    node.readings["venv"]["torch"]["product"] = product
    found = next(check for check in node.checks() if check["id"] == "framework.matrix_product")
    assert (found["code"], found.get("caused_by")) == ("wrong-result", None)
    patterns = [pattern for row in CAUSES for pattern in row.effects]
    for name in ("framework.matrix_product", "smoke.amp", "smoke.parallel"):
        assert not any(fnmatch.fnmatchcase(name + ":wrong-result", pattern) for pattern in patterns)


def test_an_unusable_device_node_explains_as_many_gpus_as_it_is_for():
    for missing, cause in ((1, "driver.device_nodes"), (2, None)):
        node = Node()
        two_cards(node)
        node.readings["device_nodes"]["/dev/nvidia1"].update(writable=False)
        torch = node.readings["venv"]["torch"]
        torch["devices"] = torch["devices"][: 2 - missing]
        torch["product"] = "right on cpu" + ", cuda:0" * (2 - missing)
        assert causes_of(node)["framework.matrix_product"] == cause, missing


def test_persistence_explains_settings_of_the_gpu_alone():
    node = Node()
    without_daemon(node)
    assert causes_of(node)["host.tuning"] == "driver.persistence"
    row = {**node.readings["tuning"][0], "name": "limits_memlock", "wanted": "unlimited", "found": "64"}
    node.readings["tuning"].append(row)
    assert causes_of(node)["host.tuning"] is None


def test_records_and_readings_without_codes_are_read_and_explain_nothing():
    """Those of earlier releases: what they do not say is not known, and nothing is hidden for it."""
    new = ("code", "items", "caused_by")
    old = [{name: check[name] for name in check if name not in new} for check in _silent().checks()]
    assert first_causes(old) == {}
    node = Node()
    not_loaded(node)
    assert node.smoke is not None
    del node.readings["probe"]["reboot"]["codes"], node.readings["card_nodes"], node.smoke["problem_codes"]
    found = {check["id"]: check for check in node.checks()}
    assert found["smoke.amp"]["code"] == "failed" and "caused_by" not in found["smoke.amp"]
    assert "caused_by" not in found["reboot.pending"]


def _silent() -> Node:
    node = Node()
    silent_and_hanging(node)
    return node


def folding(checks: list[dict]) -> list[tuple]:
    return [(check["id"], check["status"], check.get("code"), check.get("caused_by")) for check in checks]


@pytest.mark.parametrize("act", [row[0] for row in BROKEN])
def test_no_piece_reads_the_words_of_a_message(act, monkeypatch):
    """Every message is another one: the same findings are folded under the same causes, and are counted the same."""
    node = Node()
    act(node)
    checks = node.checks()
    told = folding(checks), on_page(checks), in_journal(checks)
    scramble(monkeypatch)
    checks = node.checks()
    assert (folding(checks), on_page(checks), in_journal(checks)) == told


def on_page(checks: list[dict]) -> list[tuple]:
    return [(finding.status, finding.names) for finding in to_do({"checks": checks})]


def in_journal(checks: list[dict]) -> list[str]:
    return [line.partition(":")[0] for line in finding_lines(checks)]


def scramble(monkeypatch) -> None:
    """Replace the words of each `Outcome` as it is made into a record."""
    real = verdict_check.judge

    def judged(check, readings, expectations):
        record = real(check, readings, expectations)
        return {**record, "message": f"{check.id[::-1]} {len(record['message'])} xyzzy"}

    monkeypatch.setattr(rules, "judge", judged)
