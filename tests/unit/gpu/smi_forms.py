"""nvidia-smi's answers in its other forms, made from its XML: the text of -q and a table of --query-gpu."""

from __future__ import annotations

from xml.etree import ElementTree

from gpuwright.gpu.nvidia_smi.forms import FIELDS

NO_UNIT = ("temperature.gpu", "temperature.memory", "temperature.gpu.tlimit")


def texts(gpu: ElementTree.Element) -> dict[str, str]:
    """{XML path: text} of the leaves that have a row, once for each path."""
    found: dict[str, str] = {}
    for field in FIELDS:
        leaf = gpu.find(field.xml)
        # Older drivers have the block of clocks and of power under another name.
        for new, old in (
            ("gpu_power_readings", "power_readings"),
            ("clocks_event_reasons/clocks_event_reason_", "clocks_throttle_reasons/clocks_throttle_reason_"),
        ):
            leaf = gpu.find(field.xml.replace(new, old)) if leaf is None else leaf
        if leaf is not None and len(leaf) == 0:
            found[field.xml] = (leaf.text or "").strip()
    return found


def as_text(xml: str) -> str:
    """As `nvidia-smi -q` prints it: blocks by indentation, values behind an aligned colon."""
    root = ElementTree.fromstring(xml[xml.index("<nvidia_smi_log") :])
    lines = ["", "==============NVSMI LOG==============", ""]
    for name, tag in (
        ("Timestamp", "timestamp"),
        ("Driver Version", "driver_version"),
        ("CUDA Version", "cuda_version"),
    ):
        lines.append(f"{name:<42}: {root.findtext(tag) or ''}")
    lines += ["", f"{'Attached GPUs':<42}: {root.findtext('attached_gpus')}"]
    for gpu in root.findall("gpu"):
        lines.append(f"GPU {gpu.get('id')}")
        tree: dict[str, object] = {}
        for path, value in texts(gpu).items():
            if path.startswith(("mig_devices/", "processes/")) or (path == "processes"):
                continue
            label = next(field.text for field in FIELDS if field.xml == path and field.text).split("|")[0]
            value = f"0x{value}" if path == "pci/pci_device_id" else value
            here = tree
            *blocks, last = label.split("/")
            for block in blocks:
                below = here.get(block)
                if not isinstance(below, dict):
                    below = here[block] = {"": below} if below is not None else {}
                here = below
            here[last] = value
        lines += printed(tree, 4)
        lines += slices(gpu) + programs(gpu)
    return "\n".join(lines) + "\n\n"


def printed(tree: dict, indent: int) -> list[str]:
    lines = []
    for label, value in tree.items():
        if label == "":
            continue
        name = " " * indent + label.title().replace("T.Limit", "T.Limit")
        if isinstance(value, dict):
            lines.append(f"{name:<42}: {value['']}" if value.get("") is not None else name)
            lines += printed(value, indent + 4)
        else:
            lines.append(f"{name:<42}: {value}")
    return lines


def slices(gpu: ElementTree.Element) -> list[str]:
    lines = []
    for device in gpu.findall("mig_devices/mig_device"):
        errors = device.findtext("ecc_error_count/volatile_count/sram_uncorrectable")
        lines += ["    MIG Device", f"        Index                             : {device.findtext('index')}"]
        lines += ["        ECC Errors", "            Volatile"] if errors is not None else []
        lines += [f"                SRAM Uncorrectable        : {errors}"] if errors is not None else []
    return lines


def programs(gpu: ElementTree.Element) -> list[str]:
    found = gpu.findall("processes/process_info")
    if not found:
        return [f"{'    Processes':<42}: None"]
    lines = ["    Processes"]
    for info in found:
        lines += [
            "        GPU instance ID                   : N/A",
            f"        Process ID                        : {info.findtext('pid')}",
            f"            Type                          : {info.findtext('type')}",
            f"            Name                          : {info.findtext('process_name')}",
            f"            Used GPU Memory               : {info.findtext('used_memory')}",
        ]
    return lines


def as_csv(xml: str, nounits: bool = False) -> str:
    """A table of --query-gpu with every column that has a row."""
    root = ElementTree.fromstring(xml[xml.index("<nvidia_smi_log") :])
    columns: dict[str, str] = {}
    for field in FIELDS:
        for name in field.csv.split("|")[:1]:
            if name and not any(field.xml in texts(gpu) for gpu in root.findall("gpu")):
                continue
            if name:
                columns.setdefault(name, field.xml)
    heads: list[str] = []
    rows: list[list[str]] = [[] for _gpu in root.findall("gpu")]
    for name, path in columns.items():
        cells = [texts(gpu).get(path, "N/A") for gpu in root.findall("gpu")]
        unit = next((words[1] for words in map(str.split, cells) if len(words) == 2 and words[0][0].isdigit()), "")
        heads.append(f"{name} [{unit}]" if unit and name not in NO_UNIT and unit != "bank(s)" else name)
        for row, cell in zip(rows, cells, strict=True):
            number = cell.split()[0] if unit and cell.endswith(" " + unit) else cell
            bare = name in NO_UNIT or unit == "bank(s)" or nounits
            cell = number if bare else cell
            cell = f"0x{cell}" if path == "pci/pci_device_id" else cell[:-1] if "link_widths" in path else cell
            row.append("[N/A]" if cell == "N/A" else cell)
    heads, rows = (
        ["index", "driver_version", *heads],
        [[str(number), root.findtext("driver_version") or "", *row] for number, row in enumerate(rows)],
    )
    return "\n".join(", ".join(row) for row in [heads, *rows]) + "\n"
