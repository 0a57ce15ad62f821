#!/bin/sh
# numpy 2.2.6 (PyPI, the wheels for CPython 3.10 and 3.11 on Linux) lists a compiled file with its hash in RECORD.
#
# It is a leftover of the build, numpy/distutils/__pycache__/conv_template.cpython-311.pyc. A compiled file holds the time
# of its source, and unpacking gives the source another one. pip therefore compiles it anew and writes it over the one
# from the wheel, but RECORD keeps the old hash; `pip check` says nothing.
#
# Seen: after a plain `pip install`, exactly this one of the files with a hash in RECORD differs from it.
# Why it matters: whoever compares an environment with RECORD calls every new one with this numpy damaged. Its wheel for
# Python 3.12, which has no numpy.distutils, has no such file.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=$(command -v python3.11) || { echo "python3.11 is missing" >&2; exit 2; }
"$python" -m venv "$work/venv" || exit 2
"$work/venv/bin/pip" install --quiet --only-binary :all: --no-deps numpy==2.2.6 2>"$work/said" || { cat "$work/said" >&2; exit 2; }
seen=$("$work/venv/bin/pip" check; "$work/venv/bin/python" -B -c 'import base64, csv, hashlib, pathlib, sysconfig
top = pathlib.Path(sysconfig.get_path("purelib"))
rows = csv.reader((top / "numpy-2.2.6.dist-info/RECORD").read_text().splitlines())
for name, digest, _size in rows:
    if digest:
        found = hashlib.sha256((top / name).read_bytes()).digest()
        if "sha256=" + base64.urlsafe_b64encode(found).decode().rstrip("=") != digest:
            print(name)')
[ "$seen" = "No broken requirements found.
numpy/distutils/__pycache__/conv_template.cpython-311.pyc" ] || { echo "seen now: $seen" >&2; exit 1; }
