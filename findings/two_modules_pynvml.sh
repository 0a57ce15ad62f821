#!/bin/sh
# nvidia-ml-py 13.580.82 and pynvml 11.5.3 (both PyPI) both install what `import pynvml` finds, in one environment.
#
# nvidia-ml-py is NVIDIA's binding, one file pynvml.py; pynvml 11 is an older copy of it as a folder pynvml/. They do not
# overwrite each other, pip check finds nothing wrong, and Python prefers the folder, whichever was installed last. Who
# needs a newer function of NVML has the package that brings it, and not the function.
#
# Seen: the folder's module is imported in either order of installation, without nvmlDeviceGetGpuFabricInfoV, which
# pynvml.py has.
# Why it matters: monitoring tools still pull in pynvml 11 beside the binding that a training environment pins.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for order in "pynvml==11.5.3 nvidia-ml-py==13.580.82" "nvidia-ml-py==13.580.82 pynvml==11.5.3"; do
    rm -rf "$work/venv"
    python3 -m venv "$work/venv" || exit 2
    for package in $order; do
        "$work/venv/bin/pip" install --quiet "$package" 2>"$work/said" || { cat "$work/said" >&2; exit 2; }
    done
    seen=$("$work/venv/bin/pip" check; cd "$work"; "$work/venv/bin/python" -c 'import pathlib, pynvml
name = "nvmlDeviceGetGpuFabricInfoV"
place = pathlib.Path(pynvml.__file__)
file = place.parents[1] / "pynvml.py"
print("/".join(place.parts[-2:]), hasattr(pynvml, name), f"def {name}(" in file.read_text())')
    [ "$seen" = "No broken requirements found.
pynvml/__init__.py False True" ] || { echo "seen now, installed as $order: $seen" >&2; exit 1; }
done
