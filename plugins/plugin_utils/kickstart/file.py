# SPDX-License-Identifier: Apache-2.0
"""The installation file of a host on the controller: what is there, whether it changes, and the write itself."""

from __future__ import annotations

import errno
import stat
from pathlib import Path
from typing import NamedTuple

from ansible_collections.gpuwright.node.plugins.module_utils.host.whole_file import write_whole

# The files may hold the hash of a password, which anybody who reads it can try passwords against.
FOLDER_MODE, FILE_MODE = 0o700, 0o600
ENDINGS = {"anaconda": "ks", "debian": "preseed"}
OURS = tuple(f".{ending}.cfg" for ending in ENDINGS.values())
HIDDEN = "(the hash of a password)"


class Written(NamedTuple):
    """What a run finds or changes; `before` is None where there was no file."""

    path: Path
    before: str | None
    after: str
    modes: tuple[str, str]

    @property
    def changed(self) -> bool:
        return self.before != self.after or self.modes[0] != self.modes[1]


def path_of(folder: Path, host: str, form: str) -> Path:
    return folder / f"{host}.{ENDINGS[form]}.cfg"


def write(path: Path, text: str, check_mode: bool) -> Written:
    """Bring the file and its folder to this text and their modes. OSError as it comes; check mode changes nothing."""
    _refuse_shared(path.parent)
    before = path.read_text("utf-8") if path.is_file() else None
    modes = _modes(path), f"{FOLDER_MODE:04o} {FILE_MODE:04o}"
    found = Written(path, before, text, modes)
    if found.changed and not check_mode:
        path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        path.parent.chmod(FOLDER_MODE)
        write_whole(str(path), text.encode("utf-8"), FILE_MODE)
    return found


def _refuse_shared(folder: Path) -> None:
    """PermissionError for a folder that others use, /tmp for example: closing it would take it from them."""
    if not folder.is_dir() or stat.S_IMODE(folder.stat().st_mode) == FOLDER_MODE:
        return
    others = sorted(each.name for each in folder.iterdir() if not each.name.endswith(OURS))
    if others:
        said = f"has other files ({others[0]}), and would be closed to others, with mode {FOLDER_MODE:04o}"
        raise PermissionError(errno.EPERM, said, str(folder))


def _modes(path: Path) -> str:
    """Permission bits of the folder and of the file, in octal."""
    return " ".join(f"{stat.S_IMODE(each.stat().st_mode):04o}" for each in (path.parent, path) if each.exists())


def difference(written: Written, secret: str) -> list[dict[str, str]]:
    """For --diff: the texts without the password's hash, and the modes where they change."""
    header = {"before_header": str(written.path), "after_header": str(written.path)}
    # The old hash is not known here, so its lines are found by what stands in them.
    found = [{**header, "before": hidden(written.before or "", secret), "after": hidden(written.after, secret)}]
    if written.before is not None and written.modes[0] != written.modes[1]:
        found.append({**header, "before": f"modes {written.modes[0]}\n", "after": f"modes {written.modes[1]}\n"})
    return found


def hidden(text: str, secret: str) -> str:
    """The text without `secret` and without any line that gives an account another password."""
    lines = []
    for line in text.splitlines(keepends=True):
        if secret and secret in line:
            line = line.replace(secret, HIDDEN)
        elif "--iscrypted --password=" in line or "user-password-crypted password $" in line:
            line = f"{line.split('password', 1)[0]}password {HIDDEN}, another one\n"
        lines.append(line)
    return "".join(lines)
