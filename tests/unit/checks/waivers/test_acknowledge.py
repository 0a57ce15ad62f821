"""gpu-doctor --acknowledge, --withdraw and the lists, as programs on a made-up node, and what the gate makes of it."""

from __future__ import annotations

import json
import os

import healthy_node
import node_names
import pytest
from gpuwright.checks.all import CHECKS
from gpuwright.checks.kernel.event_names import in_one_spelling
from gpuwright.checks.waivers.acknowledgements import PATH
from gpuwright.checks.waivers.named_findings import Refused, findings_to_acknowledge
from gpuwright.checks.waivers.rules import close_events
from gpuwright.readings.kernel_log.log import parse_log
from gpuwright.verdict.check import FAIL, judge
from kernel_records import RECORDS
from test_gpu_doctor import doctor, folder, gated, node  # noqa: F401
from test_kernel_log_table import journal
from test_waivers import SRAM
from text_parts import part_of
from waiver_rows import MOMENT, entry

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of the made-up node must belong to root")
WIDTH = "<current_link_width>16x</current_link_width>"
GIVE = ("--acknowledge", "gpu.link_width", "--reason", "new riser ordered, ticket 4711")
RECORD = ("--level", "quick", "--record", "900")


@pytest.fixture
def lanes(folder):  # noqa: F811
    """Set the number of lanes that nvidia-smi tells."""

    def change(number: int) -> None:
        text = (node_names.DATA / "nvidia_smi/580-v100.xml").read_text()
        assert WIDTH in text
        (folder / "580-v100.xml").write_text(text.replace(WIDTH, WIDTH.replace("16", str(number))))

    return change


def entries(host) -> list[dict]:
    return json.loads((host.folder / PATH[1:]).read_text())["acknowledgements"]


def test_from_a_failure_to_the_open_gate_and_back(doctor, node, lanes):  # noqa: F811
    """FAIL, closed; acknowledged, open; worse, closed; as before, open; expired, closed; withdrawn, closed."""
    gated(node)
    lanes(8)
    assert doctor(*RECORD).returncode == 1 and doctor("--gate").returncode == 1
    done = doctor(*GIVE, "--for", "12h")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("acknowledged gpu.link_width until ")
    assert "gate open: verdict WARN of" in done.stdout
    assert doctor("--gate").returncode == 0
    again = doctor(*RECORD)
    assert again.returncode == 0 and "WARN gpu.link_width: acknowledged until" in again.stdout
    assert "ticket 4711; the finding: 0000:3b:00.0: " in again.stdout and "1 acknowledged)" in again.stdout
    lanes(4)
    assert doctor(*RECORD).returncode == 1 and "less severe" in doctor("--gate").stderr
    lanes(8)
    assert doctor(*RECORD).returncode == 0 and doctor("--gate").returncode == 0
    kept = node.folder / PATH[1:]
    before = kept.read_text()
    [expired] = entries(node)
    expired.update(when="2026-01-05T10:00:00Z", until="2026-01-06T10:00:00Z")
    kept.write_text(json.dumps({"schema": 1, "acknowledgements": [expired]}))
    assert doctor(*RECORD).returncode == 1 and "it expired at 2026-01-06" in doctor("--gate").stderr
    kept.write_text(before)
    done = doctor("--withdraw", "gpu.link_width")
    assert done.returncode == 0 and "gate closed: verdict FAIL" in done.stdout
    assert doctor("--gate").returncode == 1 and entries(node) == []


def test_a_missing_driver_stays_closed(doctor, node):  # noqa: F811
    gated(node)
    (node.folder / "sys/module/nvidia_uvm/refcnt").unlink()
    (node.folder / "sys/module/nvidia_uvm").rmdir()
    assert doctor(*RECORD).returncode == 1
    done = doctor("--acknowledge", "driver.uvm", "--reason", "we use OpenCL")
    assert done.returncode == 2 and "driver.uvm cannot be acknowledged: a part of the driver is missing" in done.stderr
    path = node.folder / "etc/gpuwright/expectations.json"
    quiet = {check.id: "not now" for check in CHECKS}
    path.write_text(json.dumps({**json.loads(path.read_text()), "skip_checks": quiet}))
    assert doctor(*RECORD).returncode == 1 and doctor("--gate").returncode == 1


def test_a_check_that_is_switched_off_opens_the_gate(doctor, node, lanes):  # noqa: F811
    gated(node)
    lanes(8)
    path = node.folder / "etc/gpuwright/expectations.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "skip_checks": {"gpu.link_width": "slot of 8 lanes"}}))
    done = doctor(*RECORD)
    assert done.returncode == 0 and ", 1 switched off)" in done.stdout
    assert doctor("--gate").returncode == 0
    assert "switched off by the inventory: slot of 8 lanes" in doctor("--level", "quick").stdout


def test_what_is_kept_of_it(doctor, node, lanes):  # noqa: F811
    gated(node)
    lanes(8)
    done = doctor(*GIVE)
    assert done.returncode == 0 and "no check is recorded on this node" in done.stdout
    file = node.folder / PATH[1:]
    assert oct(file.stat().st_mode & 0o777) == "0o644" and file.stat().st_uid == 0
    [given] = entries(node)
    assert (given["id"], given["user"], given["uid"], given["cards"]) == ("gpu.link_width", "root", 0, ["0000:3b:00"])
    assert given["boot_id"] == "7c9e6679-7425-40de-944b-e07fc1f90ae7" and given["uptime_s"] == 100.0
    assert given["message"].startswith("0000:3b:00.0: ") and given["until"] > given["when"]
    listed = doctor("--acknowledgements", user=65534)
    assert listed.returncode == 0 and listed.stdout.startswith("gpu.link_width: in force\n  until ")
    assert "by root (uid 0)" in listed.stdout and "new riser ordered, ticket 4711" in listed.stdout
    # The same thing again replaces it.
    assert doctor(*GIVE[:-1], "another reason", "--for", "30m").returncode == 0
    assert [given["reason"] for given in entries(node)] == ["another reason"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--acknowledge", "gpu.link_wdith", "--reason", "x"], "did you mean gpu.link_width?"),
        (["--acknowledge", "gpu.link_width", "--reason", "x"], "gpu.link_width is PASS now ("),
        (["--acknowledge", "gpu.sram", "--reason", "x"], "gpu.sram is SKIP now ("),
        (
            ["--acknowledge", "gpu.count", "--reason", "x"],
            "gpu.count cannot be acknowledged: it detects a lost GPU",
        ),
        (["--acknowledge", "kernel.xid:48@0000:3b:00", "--reason", "x"], "it shows no event that FAILs"),
        (["--acknowledge", "", "--reason", "x"], "there is no check ''"),
        (["--acknowledge", "gpu.sram"], "--acknowledge needs --reason TEXT"),
        (["--acknowledge", "gpu.sram", "--reason", " "], "--reason: expected a reason of 1 to 200 characters"),
        (["--acknowledge", "gpu.sram", "--reason", "x" * 201], "--reason: it has 201 characters; expected at most 200"),
        (["--acknowledge", "gpu.sram", "--reason", "a\nb"], "--reason: expected one line"),
        (["--acknowledge", "gpu.sram", "--reason", "x", "--for", "91d"], "--for: 91d is too long"),
        (["--acknowledge", "gpu.sram", "--reason", "x", "--for", "soon"], "--for: 'soon' is not a duration"),
        (["--acknowledge", "gpu.sram", "--reason", "x", "--gate"], "not allowed with argument"),
        (["--acknowledge", "gpu.sram", "--reason", "x", "--record", "9"], "omit --record"),
        (["--reason", "x"], "belong to --acknowledge"),
        (["--for", "7d"], "belong to --acknowledge"),
        (["--withdraw", "gpu.sram"], "gpu.sram is not acknowledged; acknowledged: nothing is"),
    ],
)
def test_what_is_refused(doctor, node, arguments, words):  # noqa: F811
    done = doctor(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr and "Traceback" not in done.stderr
    assert not (node.folder / PATH[1:]).exists()


@pytest.mark.parametrize("arguments", [GIVE, ("--withdraw", "gpu.link_width")])
def test_only_root_may(doctor, node, lanes, arguments):  # noqa: F811
    lanes(8)
    done = doctor(*arguments, user=65534)
    assert (done.returncode, done.stdout) == (2, "") and "only root may do that: run it with sudo" in done.stderr
    assert not (node.folder / PATH[1:]).exists()


def test_a_damaged_file_is_not_believed_and_set_aside_by_the_next_entry(doctor, node, lanes):  # noqa: F811
    gated(node)
    lanes(8)
    node.put(PATH, "{")
    (node.folder / PATH[1:]).chmod(0o644)
    assert doctor("--acknowledgements").returncode == doctor("--withdraw", "gpu.link_width").returncode == 3
    done = doctor(*RECORD)
    assert done.returncode == 1 and "WARN waivers.valid: no acknowledgement counts" in done.stdout
    assert (node.folder / PATH[1:]).read_text() == "{"
    done = doctor(*GIVE)
    assert done.returncode == 0 and "acknowledgements.json is damaged" in done.stderr
    [aside] = (node.folder / PATH[1:]).parent.glob("acknowledgements.json.damaged-*")
    assert aside.read_text() == "{" and aside.name in done.stderr
    assert [given["id"] for given in entries(node)] == ["gpu.link_width"]


def test_it_is_told_in_any_locale(doctor, node, lanes):  # noqa: F811
    """The journal of a node with Python 3.6 is ASCII; a reason is not."""
    gated(node)
    lanes(8)
    assert doctor(*GIVE[:-1], "Ersatz für Karte 3").returncode == 0
    assert [given["reason"] for given in entries(node)] == ["Ersatz für Karte 3"]
    assert doctor("--acknowledgements").returncode == 0


def test_a_node_that_was_never_verified(doctor, node):  # noqa: F811
    (node.folder / "etc/gpuwright/expectations.json").unlink()
    done = doctor(*GIVE)
    assert done.returncode == 3 and "ansible-playbook site.yml --tags verify" in done.stderr


# --- what a name stands for, on the readings alone


def log(*codes: int, **more: object) -> dict:
    readings = {**healthy_node.readings(), "moment": dict(MOMENT), "acknowledgements": []}
    text = "NVRM: Xid (PCI:0000:3b:00): {}, pid='<unknown>', name=<unknown>, Ch 00000008"
    readings["kernel_log"]["xids"] = [
        {"code": c, "pci_id": "0000:3b:00", "count": 2, "first_s": 7, "last_s": 9, "text": text.format(c), **more}
        for c in codes
    ]
    return readings


def asked(name: str, readings: dict) -> list[dict]:
    check = next((check for check in CHECKS if check.id == name), None)
    return findings_to_acknowledge(name, check, readings, healthy_node.expectations())


def test_one_event_is_acknowledged_as_it_was():
    [found] = asked("kernel.xid:48@0000:3b:00", log(48, 79))
    assert (found["id"], found["last_s"], found["count"]) == ("kernel.xid:48@0000:3b:00", 9, 2)
    assert found["message"].startswith("48 on 0000:3b:00: ") and found["cards"] == ["0000:3b:00"]


def test_a_check_of_the_log_stands_for_its_events():
    assert [found["id"] for found in asked("kernel.xid", log(48, 13, 62))] == [
        "kernel.xid:48@0000:3b:00",
        "kernel.xid:62@0000:3b:00",
    ]


def test_a_finding_of_the_log_is_an_event():
    readings = log()
    lockup = {"kind": "lockup", "count": 1, "first_s": 3, "last_s": 3, "text": "soft", "pci_id": "host"}
    readings["kernel_log"]["findings"] = [lockup]
    assert [found["id"] for found in asked("kernel.lockups:lockup", readings)] == ["kernel.lockups:lockup"]
    assert [found["id"] for found in asked("kernel.lockups", readings)] == ["kernel.lockups:lockup"]


@pytest.mark.parametrize(
    ("name", "codes", "words"),
    [
        (
            "kernel.xid:48@0000:af:00",
            (48,),
            "events that FAIL: kernel.xid:48@0000:3b:00; did you mean kernel.xid:48@0000:3b:00?",
        ),
        ("kernel.xid:48", (48, 79), "events that FAIL: kernel.xid:48@0000:3b:00, kernel.xid:79@0000:3b:00"),
        ("kernel.xid:13@0000:3b:00", (13,), "is not a FAIL: there is nothing to acknowledge"),
        ("kernel.xid", (13,), "kernel.xid is WARN now ("),
        ("kernel.xdi", (48,), "did you mean kernel.xid?"),
        ("kernel.xid", (), "kernel.xid is PASS now ("),
    ],
)
def test_an_event_that_is_not_there(name, codes, words):
    with pytest.raises(Refused) as error:
        asked(name, log(*codes))
    assert words in str(error.value)


def test_an_unreadable_log_is_nothing_to_acknowledge():
    readings = {**log(), "kernel_log": {"unreadable": "no permission"}}
    for name, words in (("kernel.xid", "make it readable first"), ("kernel.xid:48@0000:3b:00", "no event that FAILs")):
        with pytest.raises(Refused) as error:
            asked(name, readings)
        assert words in str(error.value)


def test_an_acknowledgement_may_be_renewed():
    readings = log()
    healthy_node.put(readings, SRAM, 5)
    readings["acknowledgements"] = [entry()]
    assert [found["id"] for found in asked("gpu.sram", readings)] == ["gpu.sram"]
    readings = log(48)
    readings["acknowledgements"] = [entry("kernel.xid:48@0000:3b:00", last_s=9, count=2)]
    assert [found["id"] for found in asked("kernel.xid:48@0000:3b:00", readings)] == ["kernel.xid:48@0000:3b:00"]


def test_every_option_is_in_the_programs_help(doctor):  # noqa: F811
    text = doctor("--help").stdout
    for option in (
        "--acknowledge ID",
        "--reason TEXT",
        "--for TIME",
        "--withdraw ID",
        "--acknowledgements",
        "--strikes",
    ):
        assert option in text


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("gpu.sram", "gpu.sram"),
        (" kernel.xid:48@00000000:3B:00.0 ", "kernel.xid:48@0000:3b:00"),
        ("kernel.xid:48@unnamed", "kernel.xid:48@unnamed"),
        ("kernel.xid:48", "kernel.xid:48"),
        ("kernel.lockups:lockup", "kernel.lockups:lockup"),
        ("kernel.lockups:lockup@host", "kernel.lockups:lockup"),
        ("kernel.pcie_errors:aer@0000:3B:00.0", "kernel.pcie_errors:aer@0000:3b:00"),
        ("kernel.nvme:nvme_down@nvme0n1", "kernel.nvme:nvme_down@nvme0n1"),
        ("", ""),
        ("@", ""),
    ],
)
def test_names_may_be_spelled_as_people_find_them(given, name):
    assert in_one_spelling(given) == name


def test_an_event_that_came_again_after_it_was_closed_is_acknowledged_once():
    readings = log(48, 48)
    readings["kernel_log"]["xids"][0].update(last_s=5, count=3, closed_by="the GPU was reset at 6 s")
    [found] = asked("kernel.xid:48@0000:3b:00", readings)
    assert (found["last_s"], found["count"]) == (9, 3)
    assert [found["id"] for found in asked("kernel.xid", readings)] == ["kernel.xid:48@0000:3b:00"]


@pytest.mark.parametrize("change", [{"last_s": None}, {"count": True}, {"count": None}, {"last_s": "9"}])
def test_an_event_that_does_not_say_when_or_how_often_cannot_be_told_from_the_next_one(change):
    readings = log(48, **change)
    with pytest.raises(Refused):
        asked("kernel.xid:48@0000:3b:00", readings)


def test_findings_of_two_places_are_two_events():
    readings = log()
    both = [{"kind": "pcie", "count": 1, "last_s": 3, "text": "x", "pci_id": place} for place in ("nvme0n1", "nvme1n1")]
    readings["kernel_log"]["findings"] = both
    [found] = asked("kernel.pcie_errors:pcie@nvme1n1", readings)
    closed = close_events(readings, [entry(found["id"], last_s=found["last_s"], count=found["count"])])
    assert [bool(event.get("closed_by")) for event in closed["kernel_log"]["findings"]] == [False, True]


FAILING = [row for row in RECORDS if FAIL in row[1] and "kernel.gpu_lost" not in row[0]]


@pytest.mark.parametrize(("checks", "text"), [(row[0], row[2]) for row in FAILING], ids=range(len(FAILING)))
def test_the_name_in_a_message_is_the_name_that_is_kept(checks, text):
    """Whoever copies the name of an event from the report acknowledges that event, under that name."""
    readings = {**healthy_node.readings(), "kernel_log": {**parse_log(journal(text)), "source": "test"}}
    records = [judge(check, readings, healthy_node.expectations()) for check in CHECKS if check.id in checks.split()]
    said = [part_of(r"event (kernel\.[^ )]+)\)", row["message"]) for row in records if row["status"] == FAIL]
    assert said
    for name in said:
        assert [found["id"] for found in asked(name, readings)] == [name]
