"""The arithmetic and the page of make bench-runtime; its measuring is no test."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
BENCH = REPOSITORY / "tests" / "bench" / "runtime"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch):
    """The benchmark's modules, which lie side by side and import each other by name."""
    monkeypatch.syspath_prepend(str(BENCH))
    names = ("arms", "measure", "page")
    import arms
    import measure
    import page

    yield {"arms": arms, "measure": measure, "page": page}
    for name in names:
        sys.modules.pop(name, None)


def rounds(bare: list[float], ours: list[float]) -> list[dict]:
    return [
        {"bare": {"x": b}, "bare again": {"x": b * 1.02}, "numactl": {"x": b}, "gpu-run": {"x": o}}
        for b, o in zip(bare, ours, strict=True)
    ]


def test_ratio_is_the_median_of_pairs(bench: dict) -> None:
    table = bench["measure"].compare(rounds([100, 104, 98], [110, 104, 196]), "x", True)
    assert table["arms"]["gpu-run"]["ratio"] == pytest.approx(1.1)
    assert (table["arms"]["gpu-run"]["lowest"], table["arms"]["gpu-run"]["highest"]) == (1.0, 2.0)
    lower = bench["measure"].compare(rounds([100, 104, 98], [110, 104, 196]), "x", False)
    assert lower["arms"]["gpu-run"]["ratio"] == pytest.approx(100 / 110)


def test_no_ratio_where_bare_itself_varies(bench: dict) -> None:
    noisy = rounds([100, 140, 60, 100], [1, 2, 3, 4])
    table = bench["measure"].compare(noisy, "x", True)
    assert table["spread"] > 0.15 and not any("ratio" in row for row in table["arms"].values())


@pytest.mark.parametrize(
    ("ours", "word"),
    [
        ([101, 99, 100], "equal within 5% to"),
        ([106, 99, 100], "inconclusive beside"),
        ([80, 82, 81], "slower than"),
        ([120, 130, 140], "faster than"),
    ],
)
def test_verdict_knows_the_noise(ours: list, word: str, bench: dict) -> None:
    values = rounds([100, 101, 99], ours)
    table = bench["measure"].compare(values, "x", True)
    found = bench["measure"].verdict(table, "gpu-run", ["bare", "numactl"], values)
    assert found["other"] == "bare" and bench["page"].word_of(*found["interval"]) == word


def test_what_is_withheld_of_the_arms_is_withheld_of_the_verdict(bench: dict) -> None:
    noisy = rounds([100, 140, 60, 100], [1, 2, 3, 4])
    table = bench["measure"].compare(noisy, "x", True)
    assert bench["measure"].verdict(table, "gpu-run", ["bare", "numactl"], noisy) is None


def test_interval_of_a_median_is_that_of_the_tables(bench: dict) -> None:
    """Ranks for 95 % from tables of the sign test: 9 values, second and eighth; 15, fourth and twelfth; 5, all."""
    for count, ranks in {5: (1, 5), 6: (1, 6), 9: (2, 8), 15: (4, 12), 20: (6, 15)}.items():
        assert bench["measure"].interval([float(number) for number in range(count, 0, -1)]) == ranks


def test_cost_of_a_start_is_judged_by_its_interval(bench: dict) -> None:
    values = rounds([10.0] * 9, [28.0, 29, 30, 31, 28, 29, 30, 31, 99])
    assert bench["measure"].cost_verdict("gpu-run", values, "x", 40) == (
        "adds 20.0 ms (95 % interval 18.0 to 21.0); goal at most 40 ms: met"
    )
    assert bench["measure"].cost_verdict("gpu-run", values, "x", 19).endswith("not told")
    assert bench["measure"].cost_verdict("gpu-run", values, "x", 17).endswith("missed")


def test_page_says_what_was_not_told(bench: dict) -> None:
    noisy = rounds([100, 140, 60, 100], [1, 2, 3, 4])
    table = bench["measure"].compare(noisy, "x", True)
    text = bench["page"]._comparison({**table, "label": "x", "verdict": "not told: bare alone varied by 40%"})
    assert "| gpu-run | 2.5 | 60% | - | - |" in text and "not told: bare alone varied by 40%" in text


def test_every_arm_is_started_as_its_users_start_it(bench: dict, tmp_path: Path) -> None:
    program = bench["arms"].install_gpu_run(tmp_path)
    arms = {arm.name: arm for arm in bench["arms"].launchers("/venv/python", program, cuda=True)}
    assert arms["gpu-run"].command("/venv/python", "train.py") == [str(program), "--", "/venv/python", "train.py"]
    assert arms["bare"].command("/venv/python", "train.py") == ["/venv/python", "train.py"]
    assert "--numa-binding=node" in arms["torchrun --numa-binding"].command("/venv/python", "train.py")
    assert arms["run_cpu"].command("/venv/python", "train.py")[:3] == [
        "/venv/python",
        "-m",
        "torch.backends.xeon.run_cpu",
    ]


def test_callers_settings_are_no_part_of_an_arm(bench: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("LD_PRELOAD", "")
    environment = bench["arms"].Arm("x", environment={"A": "1"}).full_environment()
    assert "OMP_NUM_THREADS" not in environment and "LD_PRELOAD" not in environment and environment["A"] == "1"


def test_an_allocator_that_was_not_loaded_has_no_figure(bench: dict, tmp_path: Path) -> None:
    """ld.so only warns of a library that it cannot preload, and the workload would run on glibc's allocator."""
    arm = bench["arms"].Arm("jemalloc", environment={"LD_PRELOAD": "/nonexistent/libjemalloc.so.2"})
    measure = bench["measure"]
    workload = f"import sys; sys.path.insert(0, {str(BENCH)!r}); import workloads\nresult = {{'seconds': 1}}\n"
    (tmp_path / "workload.py").write_text(
        workload + "result.update(workloads.memory())\nimport json; print('RESULT', json.dumps(result))\n"
    )
    measure.WORKLOADS = tmp_path / "workload.py"
    arm.allocators.append("jemalloc")
    with pytest.raises(measure.Failed, match="jemalloc was not loaded"):
        measure.run(arm, sys.executable)
    arm.allocators.clear()
    assert measure.run(arm, sys.executable) == {"seconds": 1}


@pytest.mark.parametrize(
    ("name", "wanted", "conf", "loaded", "seen", "warned", "says"),
    [
        ("bare", [], "", ["jemalloc"], "", "", "has loaded jemalloc, which its name does not say"),
        ("malloc", [], "", [], "", "", ""),
        ("jemalloc", ["jemalloc"], "", ["jemalloc"], "thp:always", "", "MALLOC_CONF is 'thp:always', not ''"),
        ("jemalloc tuned", ["jemalloc"], "thp:always", ["jemalloc"], "", "", "MALLOC_CONF is '', not 'thp:always'"),
        (
            "jemalloc tuned",
            ["jemalloc"],
            "thp:x",
            ["jemalloc"],
            "thp:x",
            "<jemalloc>: Invalid conf value",
            "Invalid conf",
        ),
        ("tcmalloc", ["tcmalloc"], "", ["jemalloc", "tcmalloc"], "", "", "has loaded jemalloc"),
        ("jemalloc tuned", ["jemalloc"], "thp:always", ["jemalloc"], "thp:always", "", ""),
        # It chooses for itself, and that is what it is compared by.
        ("run_cpu", [], "", ["tcmalloc"], "", "", ""),
    ],
)
def test_an_arm_with_another_allocator_than_its_names_has_no_figure(
    bench: dict, tmp_path: Path, name: str, wanted: list, conf: str, loaded: list, seen: str, warned: str, says: str
) -> None:
    measure = bench["measure"]
    result = {"seconds": 1, "allocators": loaded, "malloc_conf": seen}
    (tmp_path / "w.py").write_text(
        f"import sys; print({warned!r}, file=sys.stderr); print('RESULT', {json.dumps(result)!r})\n"
    )
    measure.WORKLOADS = tmp_path / "w.py"
    prefix = [sys.executable] if name == "run_cpu" else []
    arm = bench["arms"].Arm(name, prefix, {"MALLOC_CONF": conf} if conf else {}, bool(prefix), allocators=wanted)
    if not says:
        assert measure.run(arm, sys.executable) == {"seconds": 1}
        return
    with pytest.raises(measure.Failed, match=re.escape(says)):
        measure.run(arm, sys.executable)


def test_each_arm_of_an_allocator_says_which_one_it_must_have(bench: dict, tmp_path: Path) -> None:
    arms = bench["arms"].allocators(tmp_path / "gpu-run", {"jemalloc": "/a", "tcmalloc": "/b"})
    assert [arm.allocators for arm in arms] == [["jemalloc"], ["jemalloc"], ["tcmalloc"]]
