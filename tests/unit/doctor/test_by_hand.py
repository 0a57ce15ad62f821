"""Who acts and how to tell that it is done: of every action that a broken node can print, not of the rows alone."""

from __future__ import annotations

import re
import shlex
import subprocess

import advice
import healthy_node
import node_names
import pytest
import waiver_rows
from gpuwright.checks.all import BY_HAND, CHECKS, run_checks
from gpuwright.doctor.by_hand import ELSEWHERE, done_by, hand_note, is_typed, who_acts
from gpuwright.doctor.program import explain
from gpuwright.doctor.report_text import finding_block
from gpuwright.verdict.by_hand import CLUSTER, CONTROLLER, MACHINE, NODE
from gpuwright.verdict.commands import AS_ROOT, lines_of, pasteable

PRINTED = advice.printed()
BY_ID = {check.id: check for check in CHECKS}
# Words in capitals that stand for what the reader would have to look up.
TO_FILL_IN = re.compile(r"(?<![\w/=%{-])(ADDRESS|BRIDGE|GOVERNOR|ID|NAME|VERSION|WATTS)\b")


@pytest.mark.parametrize(("check_id", "action", "remedy"), PRINTED)
def test_every_action_is_a_command_or_says_who_and_how_to_tell(check_id, action, remedy):
    note = hand_note({"id": check_id, "action": action, "remedy": remedy})
    if is_typed(action):
        assert note == ""
    elif ELSEWHERE.match(action):
        assert note == "" and any(check.id in action for check in CHECKS)
    else:
        assert re.fullmatch(r"To be done by .+; done when .+ says PASS for " + re.escape(check_id) + r"\.", note)
        assert check_id in BY_HAND, f"{action!r} needs a row in BY_HAND of its check's module"


@pytest.mark.parametrize(("check_id", "action", "remedy"), PRINTED)
def test_what_is_printed_has_nothing_to_fill_in(check_id, action, remedy):
    assert not TO_FILL_IN.search(action), action


# Commands that are for root alone, which a user's shell refuses without sudo.
ROOTS_OWN = re.compile(r"(?:^|; |&& |\|\| )(?!sudo )(?:{}) ".format("|".join(AS_ROOT)))
ROWS = [(check.id, pasteable(check.action), check.remedy) for check in CHECKS]
PASTED = [row for row in [*PRINTED, *ROWS] if row[1].startswith("Run: ")]


def test_every_action_that_is_typed_can_be_pasted():
    """All that is printed, and the rows of --explain, in a shell that only parses: commands alone, then with words."""
    assert len(PASTED) > 150
    commands = [lines_of(action)[0].removeprefix("Run: ") for _, action, _ in PASTED]
    whole = [action.removeprefix("Run: ") for _, action, _ in PASTED]
    script = "\n".join(f"f{number}() {{\n{text}\n}}" for number, text in enumerate([*commands, *whole]))
    parsed = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    assert parsed.stderr == ""
    for command in commands:
        words = shlex.split(command)
        # Prose gives itself away by an article, a colon, a full stop, a bracket.
        assert not {"the", "it", "its", "if", "of", "then", "see", "(Debian:"} & set(words), command
        assert not command.endswith((".", ",")), command
        assert not ROOTS_OWN.search(command), command


def test_every_row_is_of_a_check_whose_action_somebody_does_by_hand():
    used = {check_id for check_id, action, _remedy in PRINTED if not is_typed(action)}
    assert set(BY_HAND) <= used, set(BY_HAND) - used
    assert all(hand.who and hand.seen for hand in BY_HAND.values())


@pytest.mark.parametrize(
    ("action", "remedy", "who"),
    [
        ("Run: ansible-playbook site.yml --tags framework", "drain", CONTROLLER),
        ("See which driver it is bound to: lspci -k ; then ansible-playbook site.yml", "drain", CONTROLLER),
        ("Set verify_expected_gpu_count to 2", "", CONTROLLER),
        ("Reseat the card", "drain", MACHINE),
        ("Save what is on it", "replace", MACHINE),
        ("Run: modprobe nvidia ; look at the firmware", "drain", NODE),
        ("Run: systemctl reboot ; if it stays: ansible-playbook site.yml --tags system", "reboot", NODE),
        ("Run it inside an allocation with GPUs (srun --gres=gpu:1)", "", CLUSTER),
        ("Give the pod GPUs (resources.limits: nvidia.com/gpu)", "", CLUSTER),
    ],
)
def test_who_must_act(action, remedy, who):
    assert who_acts(action, remedy) == who


def test_the_finding_tells_it_below_its_action_and_a_command_tells_nothing():
    check = BY_ID["gpu.link_width"]
    record = {"id": check.id, "status": "WARN", "value": 8, "expected": 16, "message": "8 of 16", "remedy": ""}
    lines = finding_block({**record, "action": check.action}, [], 80)
    told = [number for number, line in enumerate(lines) if "To be done by a person with access" in line]
    assert lines[2] == "         -> Power off and reseat the card and its riser." and told == [4]
    assert max(len(line) for line in lines[4:]) <= 80
    command = finding_block({**record, "action": "Run: nvidia-smi -c 0"}, [], 80)
    assert command[-1] == "         -> Run: nvidia-smi -c 0"


@pytest.mark.parametrize(
    ("check_id", "words"),
    [
        ("smoke.amp", "ansible-playbook site.yml --tags verify says PASS for smoke.amp"),
        ("performance.copy", "sudo gpu-doctor --level deep says PASS for performance.copy"),
        ("gpu.count", "sudo gpu-doctor says PASS for gpu.count"),
        ("of.another_release", "sudo gpu-doctor says PASS for of.another_release"),
    ],
)
def test_the_last_word_is_that_of_the_check(check_id, words):
    assert done_by(check_id, "Look at it")[-1].endswith(words)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
def test_explain_tells_it_too(check, capsys):
    assert explain(check.id) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "by whom To be done by" in told
    assert ("done when" in told.split("by whom")[1]) == (not is_typed(check.action))


@pytest.mark.parametrize(
    ("check_id", "changes", "words"),
    [
        (
            "gpu.power_limit",
            {"power_limit_w": 200},
            "Run: sudo nvidia-smi -i 0000:3b:00.0 -pl 250 # Set the limit that you want",
        ),
        ("gpu.recovery_action", {"recovery_action": "gpu reset"}, "then run: nvidia-smi --gpu-reset -i 0000:3b:00.0 ;"),
        ("gpu.recovery_action", {"recovery_action": "reboot"}, "When nobody works on the node, run: systemctl reboot"),
    ],
)
def test_a_command_names_the_card_of_the_finding(check_id, changes, words):
    readings = healthy_node.readings()
    readings["nvidia_smi"]["gpus"][0].update(changes)
    found = {record["id"]: record for record in run_checks(readings, healthy_node.expectations())}
    assert words in found[check_id]["action"]


def test_of_two_cards_both_are_named():
    readings = healthy_node.readings()
    first = readings["nvidia_smi"]["gpus"][0]
    second = {**first, "pci_id": "0000:af:00.0"}
    readings["nvidia_smi"]["gpus"] = [{**card, "recovery_action": "gpu reset"} for card in (first, second)]
    found = {record["id"]: record for record in run_checks(readings, healthy_node.expectations())}
    assert "-i 0000:3b:00.0,0000:af:00.0 ;" in found["gpu.recovery_action"]["action"]


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ("/boot/initrd.img-{}", "Run: sudo update-initramfs -u -k {} # Then reboot"),
        ("/boot/initramfs-{}.img", "Run: sudo dracut -f --kver {} # Then reboot"),
    ],
)
def test_the_image_is_made_by_the_program_whose_it_is(image, words):
    readings = healthy_node.readings()
    readings["initramfs"] = {"image": image.format(node_names.KERNEL), "version": "535.1"}
    found = {record["id"]: record for record in run_checks(readings, healthy_node.expectations())}
    assert found["driver.initramfs"]["action"].startswith(words.format(node_names.KERNEL))


def test_every_acknowledgement_that_may_not_be_is_withdrawn_at_once():
    readings = healthy_node.readings()
    readings["acknowledgements"] = [waiver_rows.entry(name) for name in ("gpu.count", "driver.uvm")]
    found = {record["id"]: record for record in run_checks(readings, healthy_node.expectations())}
    action = "Run: sudo gpu-doctor --withdraw driver.uvm ; sudo gpu-doctor --withdraw gpu.count"
    assert found["waivers.valid"]["action"] == action
