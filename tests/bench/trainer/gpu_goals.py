"""The names of gpu_bench's arms, and its goals for them."""

from __future__ import annotations

from typing import Any

import report

STRICT, TF32, ITEM = "newcomer, strict float32", "newcomer, TF32 default", "loop that reads three losses"
HAND, EAGER, COMPILED = "best loop by hand", "gan_trainer, eager", "gan_trainer, compiled"
GRAPHS, BOTH = "gan_trainer, CUDA graphs", "gan_trainer, compiled, CUDA graphs"
OURS = (EAGER, COMPILED, GRAPHS, BOTH)
HAND_COMPILED, HAND_GRAPHED = "by hand, compiled", "by hand, CUDA graph"
PEERS = ("Lightning", "Accelerate", HAND, HAND_COMPILED, HAND_GRAPHED)


def goals(name: str, rows: list[dict[str, Any]]) -> list[tuple[str, bool | None]]:
    """Each goal of this size with whether it was met; None where noise hides it."""
    rates = {row["name"]: row["images_per_s"] for row in rows if row["images_per_s"]}
    noisy = {row["name"] for row in rows if row["ratio"] is None}
    fastest = max((arm for arm in OURS if arm in rates), key=lambda arm: rates[arm], default=EAGER)

    def over(text: str, base: str, wanted: float, arm: str = fastest) -> tuple[str, bool | None]:
        if base not in rates or arm not in rates:
            return f"{text}: not measured", None
        gain = rates[arm] / rates[base]
        clear = not {arm, base} & noisy
        return f"{arm} over {base}: {gain:.2f} times, goal {wanted:g}", gain >= wanted if clear else None

    found = [over(peer, peer, 1.0) for peer in PEERS] + [over(ITEM, ITEM, 1.5)]
    if name.startswith("256"):
        found += [over(STRICT, STRICT, 2.5), over(TF32, TF32, 1.5)]
        share = next((row["gemm"] for row in rows if row["name"] == fastest), "-")
        met = int(share.rstrip("%")) >= 20 if share != "-" else None
        found.append((f"{fastest}: {share} of the bf16 GEMM rate, goal 20 %", met))
    else:
        # Eager mode beside itself would be no answer.
        graphs = max((arm for arm in OURS[1:] if arm in rates), key=lambda arm: rates[arm], default=BOTH)
        found.append(over(EAGER, EAGER, 3.0, graphs))
    return found


def data_goals(fed: dict[str, Any]) -> list[tuple[str, bool | None]]:
    gain = fed["rows"][1]["ratio"]
    return [
        (f"prefetcher on over off: {report.ratio(fed['rows'][1])}, goal 1.0", None if gain is None else gain >= 1.0),
        (f"waits for data {fed['wait']:.1%} of a step, goal 2 %", fed["wait"] <= 0.02),
    ]
