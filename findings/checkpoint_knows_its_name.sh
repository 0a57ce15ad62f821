#!/bin/sh
# torch 2.13.0+cpu (PyTorch's index of CPU builds): torch.save writes the file's name into the file.
#
# The archive's inner folder is called as the file is, without its ending, so the same state saved as last.pt and as
# best.pt has two digests. Saved to a stream, or copied, it has one.
#
# Seen: two digests for the two names, one for two streams.
# Why it matters: checkpoints cannot be compared or stored once by their digests, unless each is saved by one name.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet --retries 1 numpy==2.4.6 torch==2.13.0+cpu \
    --extra-index-url https://download.pytorch.org/whl/cpu 2>"$work/said" || { cat "$work/said" >&2; exit 2; }
cd "$work"
seen=$("$work/venv/bin/python" -c 'import hashlib, io, pathlib
import torch
state, streams = {"weight": torch.arange(4.0)}, [io.BytesIO(), io.BytesIO()]
for target in (*streams, "last.pt", "best.pt"):
    torch.save(state, target)
contents = [pathlib.Path(name).read_bytes() for name in ("last.pt", "best.pt")]
print(len({hashlib.sha256(data).hexdigest() for data in contents}), len({stream.getvalue() for stream in streams}))')
[ "$seen" = "2 1" ] || { echo "seen now: $seen" >&2; exit 1; }
