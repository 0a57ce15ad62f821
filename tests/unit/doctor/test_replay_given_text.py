"""Answers of nvidia-smi as people hand them in: a host, a container, a time or a number before each line, or cut."""

from __future__ import annotations

import json
import time
from pathlib import Path

import node_names
import pytest
from gpuwright.doctor.replay import judge_files as replay
from gpuwright.doctor.replay.given_text import Beginning, decoded, untangled
from gpuwright.verdict.check import FAIL, PASS

XML = (node_names.DATA / "nvidia_smi/580-v100.xml").read_text()
BAD = XML.replace("<pending_retirement>No<", "<pending_retirement>Yes<")
STAMP = "2026-01-05T10:00:{:02}.123456789Z"
AROUND = {
    "pdsh": ("a5-01: ", ""),
    "srun -l": ("3: ", ""),
    "docker compose": ("smi-1  | ", ""),
    "kubectl logs --prefix": ("[pod/smi-x7k2p/smi] ", ""),
    "kubectl logs --timestamps": (STAMP + " ", ""),
    "CRI": (STAMP + " stdout F ", ""),
    "grep -n": ("{}:", ""),
    "cat -n": ("{:6}\t", ""),
    "a list of Ansible": ('        "', '",'),
    "a mail": ("> ", ""),
    "a table": ("| ", " |"),
}


def around(name: str, text: str) -> str:
    before, behind = AROUND[name]
    lines = [json.dumps(line)[1:-1] for line in text.splitlines()] if behind == '",' else text.splitlines()
    # As many programs do, without blanks at the end of a line.
    return "".join((before.format(at % 60) + line + behind).rstrip() + "\n" for at, line in enumerate(lines, 1))


def verdicts(path: Path, text: str | bytes) -> list[str]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [record["verdict"] for record in replay.results_of(str(path), str(path))]


@pytest.mark.parametrize("name", AROUND)
def test_an_answer_is_judged_whatever_stands_before_its_lines(tmp_path, name):
    for text, verdict in ((XML, PASS), (BAD, FAIL)):
        assert verdicts(tmp_path / "given", around(name, text)) == [verdict]


def test_answers_of_several_hosts_in_turn_are_judged_apart(tmp_path):
    good, bad = XML.splitlines(), BAD.splitlines()
    pairs = [f"a5-01: {one}\na5-02: {other}\n" for one, other in zip(good, bad, strict=True)]
    assert sorted(verdicts(tmp_path / "given", "".join(pairs))) == [FAIL, PASS]


def test_what_is_beside_them_is_judged_too(tmp_path):
    lost = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python, GPU has fallen off the bus."
    log = "".join(f"a5-01: [   99.00000{at}] {text}\n" for at, text in enumerate((lost, "x", "y", "z")))
    assert sorted(verdicts(tmp_path / "given", around("pdsh", XML) + log.replace("a5-01", "a5-09"))) == [FAIL, PASS]


@pytest.mark.parametrize("change", [lambda text: text.replace("\n", "\r"), lambda text: text.replace(" ", "\u00a0")])
def test_line_ends_and_blanks_of_other_programs(tmp_path, change):
    assert verdicts(tmp_path / "given", change(BAD)) == [FAIL]
    log = "[    5.500001] words\n[   99.000001] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
    assert verdicts(tmp_path / "given", change(log)) == [FAIL]
    # Where lines end as usual, the other character is one of a message.
    assert decoded(b"a\rb\nc\n") == "a\rb\nc\n"


def test_words_of_a_program_are_no_answer():
    """What a log of programs holds, or a process is called, anybody may write."""
    for before in ("Jan  5 10:00:00 a5-01 python[7]: ", "            Name                 : ", "    <process_name>"):
        assert untangled("".join(before + line + "\n" for line in XML.splitlines())) is None
    assert untangled(XML) is None and untangled("a5-01: <?xml version='1.0'?>\na5-01: x\n") is None


@pytest.mark.parametrize("beside", ["", XML])
def test_the_text_of_a_card_without_its_beginning_is_named(tmp_path, beside):
    path = tmp_path / "given"
    path.write_text(beside + "    Remapped Rows\n        Remapping Failure Occurred        : Yes\n")
    found = replay.results_of(str(path), str(path))
    told = "\n".join(line for result in found for line in replay.lines_of(result))
    assert replay.exit_status_of(found) == 3 and "without its beginning" in told


STAMPS = {
    "ts": "Nov 28 10:{:02}:{:02} ",
    "ts, over midnight": "Nov {day:02} {hour:02}:{:02}:{:02} ",
    "ts %F %T": "2026-11-28 10:{:02}:{:02} ",
    "ts %FT%.T": "2026-11-28T10:{:02}:{:02}.123456 ",
    "ts -s": "00:{:02}:{:02} ",
    "ts %s": "17642{:02}0{:02} ",
    "ts %.s": "17642{:02}0{:02}.5 ",
    "ts, in brackets": "[2026-11-28 10:{:02}:{:02}] ",
}


@pytest.mark.parametrize("name", STAMPS)
@pytest.mark.parametrize("form", ["xml", "q"])
def test_a_time_before_each_line_takes_nothing_of_its_indentation(name, form):
    text = (
        XML
        if form == "xml"
        else "\n==============NVSMI LOG==============\n\nAttached GPUs : 1\nGPU 00000000:3B:00.0\n"
        + ("    Remapped Rows\n        Pending                           : Yes\n    ECC Errors\n        Volatile\n")
    )
    given = "".join(
        STAMPS[name].format(at // 60 % 60, at % 60, day=28 + at // 9 % 2, hour=23 - 23 * (at // 9 % 2)) + line + "\n"
        for at, line in enumerate(text.splitlines())
    )
    found = untangled(given)
    assert found is not None and not found.rest.strip()
    assert [one.split() for one in found.texts] == [text.split()]
    lines = [line.rstrip() for line in text.splitlines()]
    assert [line for line in found.texts[0].splitlines() if line] == [line for line in lines if line]


def test_the_text_of_many_hosts_is_untangled_in_one_pass():
    """4,000 lines, each of another host, and beside them an answer."""
    given = "".join(f"node-{at:04}: <?xml version='1.0'?>\n" for at in range(4000)) + around("pdsh", XML)
    begin = time.process_time()
    found = untangled(given)
    assert time.process_time() - begin < 1
    assert found is not None and found.texts == ["\n".join(line.rstrip() for line in XML.splitlines()) + "\n"]


def test_a_line_of_blanks_costs_what_its_length_does():
    given = around("a table", XML) + "| " + " " * 20_000 + "x\n"
    begin = time.process_time()
    found = untangled(given)
    assert time.process_time() - begin < 1
    assert found is not None and len(found.texts) == 1


@pytest.mark.parametrize("size", [40, 80, 160])
def test_a_line_is_compared_with_few_beginnings_for_each_of_its_characters(monkeypatch, size):
    own_text, asked = Beginning.own_text, []

    def counted(self, rest):
        asked.append(rest)
        return own_text(self, rest)

    monkeypatch.setattr(Beginning, "own_text", counted)
    starts = [f"{'a' * words}{' ' * blanks}=NVSMI LOG=" for words in range(1, size) for blanks in range(size - words)]
    line = "a" * size
    untangled("\n".join(starts))
    before = len(asked)
    untangled("\n".join([*starts, line + " " * size]))
    alone = len(asked) - 2 * before
    untangled("\n".join([*starts, *("a" + " " * size for _ in range(size))]))
    assert 0 < alone <= 4 * size
    assert before <= len(starts) * 4 * size
    assert 0 < len(asked) - 3 * before - alone <= 4 * size
