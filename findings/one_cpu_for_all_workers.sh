#!/bin/sh
# torch 2.13.0+cpu (PyTorch's index of CPU builds): OpenMP's binding puts every DataLoader worker on one CPU.
#
# With OMP_PROC_BIND or GOMP_CPU_AFFINITY set, as guides for training on CPUs advise, libgomp binds the main thread to the
# first CPU while torch is imported, and processes inherit that: four workers then share one CPU.
#
# Seen: without it each worker may use all CPUs, with either variable one.
# Why it matters: the variables are set to make training faster, and serialise its input.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset OMP_PROC_BIND OMP_PLACES GOMP_CPU_AFFINITY
cpus=$(nproc)
[ "$cpus" -ge 2 ] || { echo "this machine lets a process use one CPU only" >&2; exit 2; }
python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet --retries 1 numpy==2.4.6 torch==2.13.0+cpu \
    --extra-index-url https://download.pytorch.org/whl/cpu 2>"$work/said" || { cat "$work/said" >&2; exit 2; }
cd "$work"
cat >workers.py <<'END'
import os

from torch.utils.data import DataLoader, Dataset


class Places(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return len(os.sched_getaffinity(0))


if __name__ == "__main__":
    print(*sorted({int(places) for places in DataLoader(Places(), batch_size=None, num_workers=4)}))
END
first=$(python3 -c 'import os; print(",".join(map(str, sorted(os.sched_getaffinity(0)))))')
seen=""
for setting in NONE=1 OMP_PROC_BIND=close "GOMP_CPU_AFFINITY=$first"; do
    seen="$seen $(env "$setting" "$work/venv/bin/python" -W ignore workers.py)"
done
[ "$seen" = " $cpus 1 1" ] || { echo "seen now, of $cpus CPUs:$seen" >&2; exit 1; }
