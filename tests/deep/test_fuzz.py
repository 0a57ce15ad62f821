"""100,000 damaged answers of nvidia-smi, made from real shapes: no exception, no waiting, no healthy garbage."""

from __future__ import annotations

import random
import time
from pathlib import Path

import healthy_node
import pytest
import test_readings_links as wires
from gpuwright.checks.all import CHECKS
from gpuwright.gpu.nvidia_smi.csv import FIELDS, IDENTITY, UnreadableCsv, parse_csv
from gpuwright.gpu.nvidia_smi.query import interpret
from gpuwright.gpu.nvidia_smi.values import UNKNOWN
from gpuwright.host.bounded import Finished
from gpuwright.readings.kernel_log.log import parse_log as parse_kernel_log
from gpuwright.readings.links import parse_errors, parse_links, parse_ways
from gpuwright.verdict.check import PASS, judge

DATA = Path(__file__).resolve().parents[1] / "unit" / "data" / "nvidia_smi"
FILES = {file.stem: file.read_text() for file in sorted(DATA.glob("*.xml"))}
INPUTS = 100_000
# Of processor time: what else a busy machine does is not the reader's.
LONGEST_SECONDS = 1.0
WORDS = [
    "N/A",
    "ERR!",
    "[Unknown Error]",
    "GPU requires reset",
    "-1",
    "1e9",
    "\x00",
    "\u202e",
    "<",
    ">",
    "&",
    "99999999999999999999",
]
ASKING = [check for check in CHECKS if check.id.startswith("gpu.") and check.id not in ("gpu.numa", "gpu.model")]


def damage(text: str, chance: random.Random) -> str:
    """One to four changes of the kinds that tools and broken pipes make."""
    for _ in range(chance.randint(1, 4)):
        begin = chance.randrange(len(text) + 1)
        end = min(len(text), begin + chance.randrange(1, 400))
        kind = chance.randrange(6)
        if kind == 0:
            text = text[:begin]
        elif kind == 1:
            text = text[:begin] + text[end:]
        elif kind == 2:
            text = text[:begin] + chance.choice(WORDS) + text[begin:]
        elif kind == 3:
            text = text[:begin] + text[begin:end] * 2 + text[end:]
        elif kind == 4:
            text = text[:begin] + "".join(chance.choice("<>/&;abc019 %\n") for _ in range(8)) + text[begin + 8 :]
        else:
            cut = text.find(">", begin)
            close = text.find("<", cut)
            text = text if cut < 0 or close < 0 else text[: cut + 1] + chance.choice(WORDS) + text[close:]
    return text


@pytest.mark.parametrize("seed", range(8))
def test_no_damaged_answer_breaks_the_reader_or_passes(seed):
    chance = random.Random(seed)
    names = sorted(FILES)
    for number in range(INPUTS // 8):
        text = damage(FILES[chance.choice(names)], chance)
        begin = time.process_time()
        meaning, log = interpret(Finished(chance.choice((0, 0, 0, 6, 9, -9)), text, "", False, False, False, ""))
        assert time.process_time() - begin < LONGEST_SECONDS
        assert meaning.status and meaning.message
        if log is None:
            assert meaning.status != "ok"
            continue
        for gpu in log["gpus"]:
            for name, value in gpu["health"].items():
                assert value is None or value == UNKNOWN or isinstance(value, (int, float, str)), name
        # Judging costs more than reading, so every tenth is judged.
        if number % 10:
            continue
        reachable = meaning.status in ("ok", "reset_required")
        smi = {**log, "status": meaning.status, "reachable": reachable, "message": "m", "action": "a"}
        for check in ASKING:
            record = judge(check, {**healthy_node.READINGS, "nvidia_smi": smi}, healthy_node.EXPECTATIONS)
            assert "this check ended with an error" not in record["message"], (check.id, record["message"])
            assert record["status"] != PASS or (reachable and log["gpus"]), check.id


def test_no_damaged_table_breaks_its_reader():
    chance = random.Random(2)
    fields = [*IDENTITY, *FIELDS]
    good = ", ".join(f"{name} [{FIELDS[name][2]}]" if name in FIELDS and FIELDS[name][2] else name for name in fields)
    row = "00000000:3B:00.0, 0x1DB410DE, Tesla V100-PCIE-16GB, " + ", ".join("0" for _name in FIELDS)
    for _ in range(20_000):
        begin = time.process_time()
        try:
            for record in parse_csv(damage(f"{good}\n{row}\n{row}\n", chance), fields):
                assert set(record["values"]) == set(FIELDS)
        except UnreadableCsv as error:
            assert str(error)
        assert time.process_time() - begin < LONGEST_SECONDS


def test_no_damaged_log_breaks_its_reader():
    chance = random.Random(1)
    line = "[   10.000001] a5-01 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
    for _ in range(5000):
        parse_kernel_log(damage(line * 3, chance))


@pytest.mark.parametrize(
    ("parse", "text"), [(parse_links, wires.STATUS), (parse_errors, wires.ERRORS), (parse_ways, wires.MATRIX)]
)
def test_no_damaged_wiring_breaks_its_reader(parse, text):
    """What cannot be understood is a ValueError, which the readings make UNKNOWN, and nothing else."""
    chance = random.Random(2)
    understood = 0
    for _ in range(5000):
        try:
            parse(damage(text, chance))
            understood += 1
        except ValueError:
            continue
    assert 0 < understood < 5000
