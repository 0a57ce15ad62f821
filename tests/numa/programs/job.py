"""A job that takes memory as trainings do, fills it, and says where it came to lie: job.py KIND MIB [then].

KIND  own      memory of the process
      shared   half its own, half in /dev/shm, as tensors that DataLoader workers hand over
      workers  four processes with a quarter each
then  "away"   go on running on the CPUs of the first node and wait, as a job that somebody has moved

Prints one JSON object: `policies`, the memory policies of its mappings as the kernel tells them (numa_maps), and `mib`,
its own memory {node: MiB}.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import tempfile
import time
from pathlib import Path

WORKERS = 4
MIB = 1 << 20
FIRST_NODE = Path("/sys/devices/system/node/node0/cpulist")


def filled(size: int, file: int = -1) -> mmap.mmap:
    """Memory of that many MiB with a byte written into every page; of an open file, or of its own."""
    kind = mmap.MAP_SHARED if file >= 0 else mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(file, size * MIB, kind)
    for place in range(0, size * MIB, mmap.PAGESIZE):
        memory[place] = 1
    return memory


def shared(size: int) -> mmap.mmap:
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        file.truncate(size * MIB)
        return filled(size, file.fileno())


def work(size: int) -> None:
    """Fill the memory in several processes, which keep it until the last one has its part."""
    ready, waiting = os.pipe()
    go, hold = os.pipe()
    children = []
    for _ in range(WORKERS):
        child = os.fork()
        if child == 0:
            os.close(hold)
            memory = filled(size // WORKERS)
            os.write(waiting, b"x")
            os.close(waiting)
            os.read(go, 1)
            memory.close()
            os._exit(0)
        children.append(child)
    os.close(waiting)
    full = 0
    # Of one that was killed nothing comes, and the last one's end closes the pipe.
    while full < WORKERS and os.read(ready, 1):
        full += 1
    os.close(hold)
    ends = [os.waitpid(child, 0)[1] for child in children]
    if any(ends):
        raise SystemExit(f"workers ended with {ends}")


def seen() -> dict[str, object]:
    """What the kernel says of this process: `/proc/self/numa_maps`, Documentation/filesystems/proc.rst."""
    policies: set[str] = set()
    pages: dict[str, int] = {}
    for line in Path("/proc/self/numa_maps").read_text().splitlines():
        words = line.split()
        policies.add(words[1])
        values = dict(word.split("=", 1) for word in words[2:] if "=" in word)
        for name in values if "anon" in values else ():
            if name[0] == "N" and name[1:].isdigit():
                kib = int(values[name]) * int(values["kernelpagesize_kB"])
                pages[name[1:]] = pages.get(name[1:], 0) + kib
    return {"policies": sorted(policies), "mib": {node: kib >> 10 for node, kib in sorted(pages.items())}}


def main(kind: str, size: int, then: str = "") -> None:
    kept = []
    if kind == "own":
        kept.append(filled(size))
    elif kind == "shared":
        kept += [filled(size // 2), shared(size // 2)]
    else:
        work(size)
    if then == "away":
        first, _, last = FIRST_NODE.read_text().strip().partition("-")
        os.sched_setaffinity(0, range(int(first), int(last or first) + 1))
    print(json.dumps(seen()), flush=True)
    if then:
        time.sleep(3600)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
