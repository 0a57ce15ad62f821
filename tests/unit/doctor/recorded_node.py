"""A recorded node whose programs change its state, as the real ones do, so that printed commands can be run on it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import advice
import healthy_containers
import healthy_files
import healthy_node
import node_names
from gpuwright.checks.all import run_checks
from gpuwright.checks.collect import collect
from host_tree import HostTree
from initramfs_images import image

XML = node_names.DATA / "nvidia_smi/580-v100.xml"
MODULE_UTILS = Path(__file__).resolve().parents[3] / "tests/node_library"
VERSION_FILE = "/proc/driver/nvidia/version"
LOADED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep 23\n"
# The program, by NVIDIA's manual page: without its module it fails with 9; settings change the answer that follows.
NVIDIA_SMI = """\
import pathlib, re, sys
answer, version = pathlib.Path({answer!r}), pathlib.Path({version!r})
words = sys.argv[1:]
if not version.exists():
    print("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
    sys.exit(9)
text = answer.read_text()
if words == ["-q", "-x"]:
    sys.exit(sys.stdout.write(text) and 0)
while words:
    word = words.pop(0)
    if word == "-i":
        assert words.pop(0).lower() == "0000:3b:00.0"
    elif word == "-c":
        text = text.replace("Exclusive_Process", {{"0": "Default"}}[words.pop(0)])
    elif word == "-mig":
        assert words.pop(0) == "0"
        text = re.sub(r"(?s)(?<=<mig_mode>).*?(?=</mig_mode>)", lambda m: m[0].replace("Enabled", "Disabled"), text)
    elif word == "-e":
        text = text.replace("<pending_ecc>Disabled", {{"1": "<pending_ecc>Enabled"}}[words.pop(0)])
    elif word == "-pl":
        text = re.sub(r"(?<=<current_power_limit>)[0-9.]+", "%.2f" % float(words.pop(0)), text, count=1)
    elif word == "-rac":
        text = re.sub("<graphics_clock>1005", "<graphics_clock>1245", text)
    elif word == "-rgc":
        text = text.replace("<performance_state>P8", "<performance_state>P0")
    elif word == "--gpu-reset":
        text = re.sub(r"(?<=<gpu_recovery_action>)[^<]+", "None", text)
        text = re.sub(r"(?<=_repair_pending>)Yes", "No", text)
    else:
        sys.exit("nvidia-smi: unknown option " + word)
answer.write_text(text)
"""
# What a boot does to the same node: it loads the module that is on disk, with the parameters that are asked for.
BOOT = """\
import pathlib, re, shutil
root, answer = pathlib.Path({root!r}), pathlib.Path({answer!r})
text = answer.read_text()
pending = re.search("<pending_ecc>([^<]+)", text)[1]
text = re.sub(r"(?<=<current_ecc>)[^<]+", pending, text)
text = re.sub(r"(?<=<gpu_recovery_action>)[^<]+", "None", text)
answer.write_text(text.replace("<pending_retirement>Yes", "<pending_retirement>No"))
(root / "proc/driver/nvidia/version").write_text({loaded!r})
asked = re.search("NVreg_DeviceFileMode=(0[0-7]+)", (root / "etc/modprobe.d/nvidia.conf").read_text())[1]
params = root / "proc/driver/nvidia/params"
params.write_text(re.sub(r"(?<=DeviceFileMode: )[0-9]+", str(int(asked, 8)), params.read_text()))
shutil.rmtree(root / "sys/module/nouveau", ignore_errors=True)
"""


class Recorded:
    """A node of files whose programs keep their state in it."""

    def __init__(self, tree: HostTree, write: Callable[[str, str], Path], tmp_path: Path) -> None:
        self.tree, self.write, self.state = tree, write, tmp_path / "state"
        self.state.mkdir()
        self.expectations = healthy_node.expectations()
        self.answer = self.state / "answer.xml"
        self.answer.write_text(XML.read_text())
        self.units = self.state / "units"
        self.units.mkdir()
        for name in ("nvidia-persistenced", "gpuwright-boot-check.service", "gpuwright-check.timer"):
            self.unit(name, "active enabled")
        self._programs()

    def unit(self, name: str, state: str) -> None:
        """A unit with its state and whether it is switched on, for example "inactive masked"."""
        (self.units / name).write_text(state + "\n")

    def program(self, name: str, script: str) -> None:
        self.write(name, f"#!{sys.executable}\n{script}")

    def _programs(self) -> None:
        root, answer = self.tree.root, str(self.answer)
        self.program("nvidia-smi", NVIDIA_SMI.format(answer=answer, version=root + VERSION_FILE))
        self.program("boot", BOOT.format(root=root, answer=answer, loaded=LOADED))
        spec, graphics = f"{root}/var/run/cdi/nvidia.yaml", f"sed -i /process_info/d {answer}"
        (self.state / "cdi").write_text(healthy_containers.CDI)
        joined = f"sed -i s/In.Progress/Completed/ {answer}"
        # Of a masked unit enable fails, as systemctl(1) says.
        self.write(
            "systemctl",
            f"""#!/bin/sh
cd {self.units} || exit 1
case "$1" in
show) shift 3; for unit; do
    read -r active enabled < "$unit" 2>/dev/null || {{ active=inactive; enabled=; }}
    printf 'Id=%s\\nActiveState=%s\\nUnitFileState=%s\\n\\n' "$unit" "$active" "$enabled"
    done ;;
is-active) read -r active enabled < "$2" 2>/dev/null || active=inactive; echo "$active"; [ "$active" = active ] ;;
unmask) [ "$(cat "$2")" != "inactive masked" ] || echo "inactive disabled" > "$2" ;;
enable) [ "$2" = --now ] && [ "$(cat "$3")" != "inactive masked" ] && echo "active enabled" > "$3" ;;
restart) case "$2" in
    gpuwright-cdi) cp {self.state}/cdi {spec} ;;
    nvidia-fabricmanager) echo "active enabled" > "$2"; {joined} ;;
    *) exit 5 ;; esac ;;
set-default) [ "$2" = multi-user.target ] && touch {self.state}/text-only ;;
isolate) [ -e {self.state}/text-only ] && {graphics} ;;
reboot) boot ;;
*) exit 1 ;;
esac
""",
        )
        modules = f'for name; do mkdir -p {root}/sys/module/$name; done; case " $* " in *" nvidia "*) '
        loaded = f"echo '{LOADED[:-1]}' > {root}{VERSION_FILE}"
        self.write("modprobe", f'#!/bin/sh\n[ "$1" = -a ] && shift\n{modules} {loaded}; esac\n')
        card = f"{root}/dev/nvidia0"
        self.write("nvidia-modprobe", f'#!/bin/sh\n[ "$*" = "-u -c 0" ] && mknod -m 666 {card} c 240 0\n')
        link = f"{root}/dev/char/240:0"
        links = f"ln -s ../nvidia0 {link}"
        self.write("nvidia-ctk", f'#!/bin/sh\n[ "$*" = "system create-dev-char-symlinks" ] && {links}\n')
        self.write("usermod", f'#!/bin/sh\n[ "$1" = -aG ] && sed -i "s/^$2:.*/&,$3/" {root}/etc/group\n')
        built = f'[ "$*" = "autoinstall -k {node_names.KERNEL}" ] && rm -f {self.state}/not-built'
        self.write("dkms", f"#!/bin/sh\n{built}\n")
        modinfo = f"[ -e {self.state}/not-built ] && exit 1\ncat <<'E'\n{healthy_files.MODINFO}E"
        self.write("modinfo", f"#!/bin/sh\n{modinfo}\n")
        (self.state / "image").write_bytes(image({}))
        made = f'[ "$*" = "-f --kver {node_names.KERNEL}" ] && cp {self.state}/image {root}/boot/initramfs-$3.img'
        self.write("dracut", f"#!/bin/sh\n{made}\n")
        self.program(
            "gpu-doctor",
            f"import sys; sys.path.insert(0, {str(MODULE_UTILS)!r})\n"
            f"from gpuwright.doctor.program import main; sys.exit(main(sys.argv[1:], {root!r}))\n",
        )

    def judged(self, check_id: str) -> dict:
        found = collect(self.expectations, self.tree.root)
        records = run_checks(found, self.expectations, healthy_node.smoke())
        return next(record for record in records if record["id"] == check_id)

    def follow(self, action: str) -> None:
        """Run what is printed, as root, with the node's files in the place of this machine's."""
        typed = advice.commands(action)
        assert typed, f"nothing to type in {action!r}"
        for command in typed:
            moved = re.sub(r"(?<=[ '])/(etc|opt|usr|srv|var|dev)/", rf"{self.tree.root}/\1/", command)
            done = subprocess.run(["/bin/sh", "-c", moved], capture_output=True, text=True, check=False)
            assert done.returncode == 0, (command, done.stdout + done.stderr)
