# SPDX-License-Identifier: Apache-2.0
"""What keeps the node's packages at their versions: enabled module streams and dnf's version locks."""

from typing import Any, Dict, List, Optional

from ..host.files import exists, names_in, read_text
from ..host.patterns import lazily

STREAMS = "/etc/dnf/modules.d"
LOCK_LIST = "/etc/dnf/plugins/versionlock.list"
# Locks of packages that do not exist enclose what the role system_version_lock writes for one owner.
MARK = lazily(r"gpuwright-(BEGIN|END)-")


def read_package_locks(root: str) -> Optional[Dict[str, Any]]:
    """`{streams: {module: "enabled 580-dkms"}, versions: [patterns]}`; None on a node without dnf."""
    if not exists(root, "/etc/dnf"):
        return None
    return {"streams": read_streams(root), "versions": read_version_locks(root)}


def read_streams(root: str) -> Dict[str, str]:
    """State of each module that is not left to the repository's default; ValueError for an unreadable file."""
    from .module_streams import StreamError, read_selection

    found = {}
    for name in names_in(root, STREAMS):
        module = name[: -len(".module")] if name.endswith(".module") else ""
        if module:
            try:
                selection = read_selection(module, root)
            except StreamError as error:
                raise ValueError(str(error))
            if selection.state:
                found[module] = f"{selection.state} {selection.stream}".strip()
    return found


def read_version_locks(root: str) -> List[str]:
    """The patterns of versionlock.list without gpuwright's marks; empty if there is no such file."""
    text = read_text(root, LOCK_LIST)
    if text is None and exists(root, LOCK_LIST):
        raise OSError(f"{LOCK_LIST} cannot be read")
    lines = [line.split("#")[0].strip() for line in (text or "").splitlines()]
    return [line for line in lines if line and not MARK.match(line)]
