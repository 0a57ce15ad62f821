# SPDX-License-Identifier: Apache-2.0
"""Which "N/A" from nvidia-smi is believed: field x architecture x MIG mode x ECC x kind of card.

A field that reads N/A, but that no row of the table allows to be absent, is UNKNOWN: the card has the feature, and the
reading failed.
"""

from typing import Any, NamedTuple, Optional, Tuple

from ..cards import ARCHITECTURES, card_of, is_strict, may_lack_ecc, may_lack_mig
from .values import UNKNOWN

RETIRES_PAGES = tuple(name for name, row in ARCHITECTURES.items() if row.memory_repair == "pages")
REMAPS_ROWS = tuple(name for name, row in ARCHITECTURES.items() if row.memory_repair == "rows")
MIG_HIDES_ECC = tuple(name for name, row in ARCHITECTURES.items() if row.mig_hides_ecc)
LACKS_CLOCKS = tuple(name for name, row in ARCHITECTURES.items() if not row.application_clocks)

# A virtual machine that has a part of a card; values of the whole card are visible only to the host.
VGPU = ("vgpu", "vsga")


class Card(NamedTuple):
    """What decides: product name, architecture, MIG and ECC mode (Enabled, Disabled, None or UNKNOWN).

    device_id       the PCI id in four digits, "" if it is not known
    virtualization  the mode in lower case
    driver          its branch as a number, None if it is not known
    c2c             Enabled if the card shares its memory with a processor next to it
    """

    name: str
    architecture: str
    mig: Optional[str]
    ecc: Optional[str]
    device_id: str = ""
    virtualization: Optional[str] = ""
    driver: Optional[int] = None
    c2c: Optional[str] = None


class Rule(NamedTuple):
    """These fields may read N/A on a card that meets all conditions; every card meets an empty condition.

    data_centre  True or False: the card is, or is not, one whose "N/A" is not believed: a data-centre card, or one that
                 neither a row nor its name classifies
    vgpu         True: a virtual machine that has a part of the card
    before       the first branch of the driver that writes the field
    """

    fields: Tuple[str, ...]
    architectures: Tuple[str, ...] = ()
    mig: Tuple[Optional[str], ...] = ()
    ecc: Tuple[Optional[str], ...] = ()
    data_centre: Optional[bool] = None
    may_lack_mig: Optional[bool] = None
    may_lack_ecc: Optional[bool] = None
    vgpu: Optional[bool] = None
    before: Optional[int] = None
    c2c: Tuple[Optional[str], ...] = ()
    source: str = ""


RETIREMENT = ("retired_pages_pending", "retired_pages_single_bit", "retired_pages_double_bit")
REMAPPING = ("remapped_rows_pending", "remapped_rows_failure", "remapped_rows_uncorrected", "remapped_rows_corrected")
CONSUMER = "GeForce and RTX captures of drivers 418 to 595: influxdata/telegraf, plugins/inputs/nvidia_smi/testdata"
RULES = (
    Rule(("power_draw_w", "power_limit_w", "power_default_w"), data_centre=False, source=CONSUMER),
    Rule(("ecc_mode", "ecc_pending", "ecc_corrected_volatile"), may_lack_ecc=True, source=CONSUMER),
    Rule(("inforom_image", "throttle_reasons"), data_centre=False, source=CONSUMER),
    Rule(
        ("ecc_pending", "ecc_uncorrected_volatile", "ecc_corrected_volatile", "dram_uncorrected_aggregate")
        + RETIREMENT
        + REMAPPING,
        ecc=(None, "Disabled"),
        source="nvidia-smi(1): counted while ECC is on",
    ),
    Rule(
        ("ecc_uncorrected_volatile", "ecc_corrected_volatile"),
        architectures=MIG_HIDES_ECC,
        mig=("Enabled",),
        source="A100 with MIG under driver 510: netdata, go.d nvidia_smi testdata (the slices count instead)",
    ),
    Rule(
        RETIREMENT,
        architectures=REMAPS_ROWS + (UNKNOWN,),
        source="docs.nvidia.com/deploy/dynamic-page-retirement; H100, H200 and L40S: nvidia_gpu_exporter captures",
    ),
    Rule(
        REMAPPING,
        architectures=RETIRES_PAGES + (UNKNOWN,),
        source="docs.nvidia.com/deploy/a100-gpu-mem-error-mgmt: from Ampere on; T4: telegraf capture",
    ),
    Rule(REMAPPING, data_centre=False, source=CONSUMER),
    Rule(REMAPPING, mig=("Enabled",), source="A100 and H100 with MIG: captures of telegraf and nvidia_gpu_exporter"),
    Rule(
        ("utilization_gpu", "utilization_memory", "utilization_percent"),
        mig=("Enabled",),
        source="H100 with MIG: nvidia_gpu_exporter",
    ),
    Rule(("clocks_applied", "clocks_default"), data_centre=False, source=CONSUMER),
    Rule(
        ("clocks_applied", "clocks_default"),
        may_lack_ecc=True,
        source="GRID K520 under driver 352 (rai-project/nvidia-smi): a board for graphics, without ECC too",
    ),
    Rule(
        ("clocks_applied", "clocks_default"),
        architectures=LACKS_CLOCKS + (UNKNOWN,),
        source="nvidia-smi(1): for Tesla from Kepler on; drivers from 590 on call them deprecated (telegraf capture)",
    ),
    Rule(("mig_mode",), may_lack_mig=True, source="nvidia-smi(1): MIG is a mode of A100, A30 and newer of their class"),
    Rule(
        ("mig_mode",),
        architectures=RETIRES_PAGES,
        source="nvidia-smi(1): MIG came with the cards that remap rows; drivers before 450 have no such tag",
    ),
    Rule(
        ("temperature_c", "power_draw_w", "power_limit_w", "power_default_w", "inforom_image", "throttle_reasons")
        + ("link_width_now", "link_width_max", "link_gen_now", "link_gen_max", "pcie_replays", "pcie_replay_rollovers")
        + ("ecc_mode", "ecc_pending", "ecc_uncorrected_volatile", "ecc_corrected_volatile", "mig_mode")
        + ("dram_uncorrected_aggregate", "clocks_applied", "clocks_default")
        + RETIREMENT
        + REMAPPING,
        vgpu=True,
        source="guests under drivers 535 to 580: answers in public issues and guides",
    ),
    Rule(
        ("pcie_replay_rollovers",),
        before=418,
        source="answers of drivers 352 to 410 (rai-project, lampaa/nvidia-smi-rest); 418 has it",
    ),
    Rule(
        ("bar1_total_mib",),
        c2c=("Enabled",),
        source="GH200 under driver 550: the processor reaches the memory over C2C, there is no window",
    ),
    # Fields that some cards of every kind lack, so that their absence says nothing.
    Rule(
        ("serial", "fan_speed", "temperature_memory_c", "temperature_slowdown_c")
        + ("temperature_margin_c", "sram_uncorrected_aggregate", "sram_threshold_exceeded", "recovery_action")
        + ("fabric_state", "fabric_status", "used_memory_mib", "unrepairable_memory", "gsp_firmware")
        + ("fabric_summary", "fabric_bandwidth", "fabric_route_recovery", "fabric_route_unhealthy")
        + ("fabric_access_timeout", "fabric_configuration", "fabric_partition", "fabric_clique", "fabric_cluster")
        + ("channel_repair_pending", "tpc_repair_pending", "spare_rows_low", "spare_rows_none")
        + ("sram_uncorrected_sources", "mig_uncorrected_volatile", "mig_pending", "temperature_memory_max_c")
        + ("module_power_default_w", "module_power_limit_w", "throttled_by_heat_us", "throttled_by_brake_us")
        + ("link_gen_host", "link_gen_card", "virtualization", "vgpu_license", "addressing_mode")
        + ("c2c_mode",),
        source="captures of all generations",
    ),
)


def may_be_absent(field: str, card: Card) -> bool:
    """Whether "N/A" in `field` can be true of such a card."""
    return any(field in rule.fields and _holds(rule, card) for rule in RULES)


def _holds(rule: Rule, card: Card) -> bool:
    row = card_of(card.name, card.device_id)
    return (
        (not rule.architectures or card.architecture in rule.architectures)
        and (not rule.mig or card.mig in rule.mig)
        and (not rule.ecc or card.ecc in rule.ecc)
        and rule.data_centre in (None, is_strict(row))
        and rule.vgpu in (None, card.virtualization in VGPU)
        and (rule.before is None or (card.driver is not None and card.driver < rule.before))
        and (not rule.c2c or card.c2c in rule.c2c)
        and rule.may_lack_mig in (None, may_lack_mig(row))
        and rule.may_lack_ecc in (None, may_lack_ecc(row))
    )


def believed(value: Any, field: str, card: Card) -> Any:
    """`value`, or UNKNOWN for None if this card must have one."""
    return UNKNOWN if value is None and not may_be_absent(field, card) else value
