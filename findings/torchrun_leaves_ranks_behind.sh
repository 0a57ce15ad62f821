#!/bin/sh
# torchrun of torch 2.13.0+cpu (PyTorch's index of CPU builds): SIGUSR1 ends torchrun, and its ranks train on.
#
# It passes SIGTERM, SIGINT, SIGHUP and SIGQUIT on to its processes. SIGUSR1, by which Slurm (--signal=B:USR1@120) and
# others announce the end of a job, it does not catch: the default action ends torchrun alone.
#
# Seen: torchrun ended by the signal (128 + 10), and both ranks alive a second later.
# Why it matters: the job counts as over while its ranks hold the GPUs. torchrun --signals-to-handle names more signals.
set -eu
work=$(mktemp -d)
ranks=""
trap 'kill $ranks 2>/dev/null; rm -rf "$work"' EXIT
python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet --retries 1 numpy==2.4.6 torch==2.13.0+cpu \
    --extra-index-url https://download.pytorch.org/whl/cpu 2>"$work/said" || { cat "$work/said" >&2; exit 2; }
cd "$work"
cat >rank.py <<'END'
import os
import pathlib
import time

pathlib.Path("new" + os.environ["RANK"]).write_text(f"{os.getpid()}\n")
os.rename("new" + os.environ["RANK"], "rank" + os.environ["RANK"])
time.sleep(120)
END
"$work/venv/bin/torchrun" --standalone --nproc-per-node=2 rank.py >said 2>&1 &
torchrun=$!
for _half_second in $(seq 120); do
    [ -e rank0 ] && [ -e rank1 ] && break
    sleep 0.5
done
[ -e rank0 ] && [ -e rank1 ] || { kill "$torchrun"; cat said >&2; exit 2; }
ranks="$(cat rank0) $(cat rank1)"
kill -USR1 "$torchrun"
status=0
{ wait "$torchrun"; } 2>/dev/null || status=$?
sleep 1
alive=0
for rank in $ranks; do kill -0 "$rank" && alive=$((alive + 1)); done
[ "$status $alive" = "138 2" ] || { echo "seen now: status $status, $alive ranks alive" >&2; exit 1; }
