# SPDX-License-Identifier: Apache-2.0
"""What the kernel writes about network adapters and file servers: one row for each kind of message.

An adapter that lost its firmware ends every training run across nodes, though its link may still read as up. NVIDIA's
NVSentinel calls a lost heartbeat, a command that never ends and an unrecoverable error fatal, and all else a note:
docs.nvidia.com/nvsentinel, NIC health monitor. A file server that does not answer holds up training, but is not a
fault of this node: a warning until it answers again.
"""

from ...verdict.check import REBOOT
from .rows import AT, BOOT, DEVICE, UNCORRECTED, WATCH, Row

MLX5 = "drivers/net/ethernet/mellanox/mlx5/core: health.c, cmd.c, main.c, events.c; docs.nvidia.com/nvsentinel"
# "mlx5_core 0000:5e:00.0 ib0: function:line:(pid 0): "; older kernels leave the function out.
ADAPTER = r"mlx5_core(?: " + AT + r")?(?: [\w.-]+)?: (?:\w+:[0-9]+:\(pid [0-9]+\): )?"

NETWORK_ROWS = (
    Row(
        "network",
        "kernel.network",
        UNCORRECTED,
        DEVICE,
        ADAPTER + r"(?:device's health compromised|Fatal error [0-9]+ detected|PCI slot is unavailable"
        r"|Health issue observed, .{1,60}, severity\([0-3]\)|(?:INFO: )?synd 0x(?:8|b): "
        r"|health recovery (?:failed|flow aborted)|(?:cmd\[-?[0-9]+\]: )?\w+\(0x[0-9a-f]+\) (?:Async, )?timeout\. Will"
        r" cause a leak|mlx5_load_one failed|probe with driver mlx5_core failed)|mlx5_core: probe of " + AT + " failed",
        REBOOT,
        MLX5,
    ),
    Row(
        "network_trouble",
        "kernel.network",
        WATCH,
        DEVICE,
        ADAPTER + r"(?:Health issue observed, |Detected insufficient power on the PCIe slot|Port module event\[error\]"
        r"|High temperature on sensors|CQ error on CQN|TX timeout detected)",
        "",
        MLX5,
    ),
    Row(
        "network_trouble",
        "kernel.network",
        WATCH,
        BOOT,
        r"(?:[\w-]+ \S+ [\w.-]+: )?NETDEV WATCHDOG: .*transmit queue [0-9]+ timed out",
        "",
        "net/sched/sch_generic.c",
    ),
    Row(
        "remote_storage",
        "kernel.remote_storage",
        WATCH,
        DEVICE,
        r"nfs: server \S+ not responding|ceph: mds[0-9]+ hung|CIFS: (?:VFS: )?\S+ has not responded in"
        r"|Lustre: [^:]+: Connection to \S+ \(at \S+\) was lost|LustreError: .*This client was evicted by ",
        "",
        "fs/lockd, net/sunrpc/clnt.c, fs/ceph/mds_client.c, fs/smb/client/connect.c; lustre: ptlrpc/import.c",
    ),
)
