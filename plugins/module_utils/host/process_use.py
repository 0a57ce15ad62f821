# SPDX-License-Identifier: Apache-2.0
"""What one process uses: GPUs, Python environments below one folder, and the service, job or container it belongs to.

An environment's interpreter is a link to the system's own, so the program file alone says little: what matters is what
the process has mapped into its memory, and the name by which it was called.
"""

import os
import re
from typing import Any, Callable, Dict, Iterator, List, Match, Optional, Pattern, Union

from .files import below, names_in, read_text, resolve
from .mount_places import Place, place_of, read_mounts, rest_below
from .processes import command_name

VENVS = "/opt/gpuwright/venvs"
CARD = re.compile(r"/dev/(nvidia[0-9]+)(?: \(deleted\))?$")
# Files that NVIDIA's runtimes mount into a container to which they give a GPU.
GIVEN = re.compile(r"/dev/nvidia[0-9]+$|/libcuda\.so(?:\.[0-9.]+)?$")
INTERPRETER = re.compile(r"(?:platform-)?python[0-9.]*$")
DELETED = " (deleted)"
INIT = "/init.scope"
JOB = re.compile(r"/job_([0-9]+)(?:/|$)", re.MULTILINE)
CONTAINER = re.compile(
    r"(?:(libpod|docker|cri-containerd|crio|nerdctl)-|/(docker|libpod|kubepods\S*|lxc[^/]*|default)/)"
    r"(?:conmon-)?([0-9a-f]{12,64})(?:\.scope)?(?=/|$)",
    re.MULTILINE,
)
# A user's own service manager (user@1001.service) is not a service in this sense.
UNIT = re.compile(r"/((?!user@)[^/\n]+\.service)(?=/|$)", re.MULTILINE)
MOST_BYTES = 64 * 1024 * 1024
MOST_ARGUMENTS_BYTES = 256 * 1024


class Folder(object):
    """The folder of environments, as seen by this process and by any other."""

    def __init__(self, root: str, venvs: str = VENVS) -> None:
        self.root, self.venvs = root, venvs
        full = resolve(root, venvs)
        self.real = "/" + os.path.relpath(full, root) if full else venvs
        self.own_mounts = _namespace(root, "self")
        self.place = place_of(read_mounts(root, "self"), self.real)
        groups = _groups(root, 1).items()
        self.base = {name: path[: -len(INIT)] if path.endswith(INIT) else path for name, path in groups}
        self._seen = {}  # type: Dict[str, Any]
        self._like_ours = {}  # type: Dict[int, bool]

    def sees_as_we_do(self, pid: int) -> bool:
        """Whether the process has our mounts; if that cannot be determined, it is assumed."""
        if pid not in self._like_ours:
            mounts = _namespace(self.root, pid)
            self._like_ours[pid] = None in (mounts, self.own_mounts) or mounts == self.own_mounts
        return self._like_ours[pid]

    def groups(self, pid: int) -> List[str]:
        """Paths of its control groups below those of process 1: a host may itself be a container."""
        found = []
        for controllers, path in _groups(self.root, pid).items():
            base = self.base.get(controllers, "/")
            found.append("/" + (rest_below(base, path) or "") if rest_below(base, path) is not None else path)
        return found

    def mounts(self, pid: int) -> Any:
        """The process's mounts, read once for all processes that share them."""
        namespace = _namespace(self.root, pid) or str(pid)
        if namespace not in self._seen:
            self._seen[namespace] = read_mounts(self.root, pid)
        return self._seen[namespace]

    def environment_of(self, pid: int, path: str) -> str:
        """The environment that contains this path of a process, as a path of the host; "" for none.

        If the mounts that the process sees cannot be read, its path is taken literally.
        """
        names = [rest_below(folder, path) for folder in {self.venvs, self.real}]
        if not self.sees_as_we_do(pid) and self.place:
            place = place_of(self.mounts(pid), path)
            names = [_rest_of_place(self.place, place)] if place else names
        name = next((rest.split("/")[0] for rest in names if rest), "")
        target = _link(self.root, f"{self.real}/{name}") if name else None
        name = os.path.basename(target.rstrip("/")) if target else name
        return f"{self.venvs}/{name}" if name else ""


def _groups(root: str, pid: int) -> Dict[str, str]:
    """{controllers: path} of a process's control groups (cgroups(7))."""
    lines = [line.split(":", 2) for line in (read_text(root, f"/proc/{pid}/cgroup") or "").splitlines()]
    return {fields[1]: fields[2] for fields in lines if len(fields) == 3}


def _rest_of_place(folder: Place, place: Place) -> Optional[str]:
    return rest_below(folder.path, place.path) if folder.device == place.device else None


def _namespace(root: str, pid: Union[int, str]) -> Optional[str]:
    return _link(root, f"/proc/{pid}/ns/mnt")


def _link(root: str, path: str) -> Optional[str]:
    try:
        return _text(os.readlink(below(root, path)))
    except (OSError, ValueError):
        return None


def _text(name: str) -> str:
    """A file name as text that any program can print."""
    return os.fsencode(name).decode("utf-8", "replace")


def read_use(folder: Folder, pid: int) -> Dict[str, Any]:
    """What the process uses; empty for nothing.

    name, cards (names such as nvidia0), given (whether its container was given a GPU), environments (that it runs
    from), held (that it has open or has as working folder), by_link (whether it was started through a link to an
    environment, and would notice that link change), unit, job, container ("" for none), denied (whether this process
    may not examine it)
    """
    root, home = folder.root, _living(folder.root, pid)
    group = "\n".join(folder.groups(pid))
    container, unit = _last(CONTAINER, group), _last(UNIT, group)
    # For a service inside a container, or a container that a service runs, the inner one is more informative.
    inner_is_unit = unit is not None and (container is None or unit.start() > container.start())
    found = {
        "name": command_name(root, pid),
        "cards": [],
        "given": False,
        "environments": [],
        "held": [],
        "by_link": False,
        "denied": False,
        "job": _first(JOB, group, 1) if "slurm" in group else "",
        "container": container.group(3)[:12] if container and not inner_is_unit else "",
        "unit": unit.group(1) if unit and inner_is_unit else "",
    }  # type: Dict[str, Any]
    paths = _guarded(found, lambda: _open_files(root, home))
    used = [_link(root, home + "/exe") or ""] + _guarded(found, lambda: list(_mapped(root, home)))
    cards = {match.group(1) for match in map(CARD.match, paths + used) if match}
    called = _called(root, home, folder)
    environments = {folder.environment_of(pid, path) for path in set(used) if path} | {
        folder.environment_of(pid, path) for path in called
    }
    held = {folder.environment_of(pid, path) for path in {*paths, *_places(root, home)}}
    found["cards"] = sorted(cards)
    found["environments"] = sorted(environments - {""})
    found["held"] = sorted(held - {""} - environments)
    found["by_link"] = any(_is_link(folder, path) for path in called[:1])
    found["given"] = not folder.sees_as_we_do(pid) and any(GIVEN.search(row.point) for row in folder.mounts(pid))
    said = ("cards", "given", "environments", "held", "denied", "job")
    return found if any(found[name] for name in said) else {}


def _living(root: str, pid: int) -> str:
    """The /proc folder of the process or, if its first thread has ended before others, of a thread that is alive."""
    home = f"/proc/{pid}"
    if not _is_zombie(root, home):
        return home
    others = [f"{home}/task/{name}" for name in names_in(root, home + "/task")]
    return next((task for task in others if not _is_zombie(root, task)), home)


def _is_zombie(root: str, home: str) -> bool:
    fields = (read_text(root, home + "/stat") or "").rpartition(")")[2].split()
    return fields[:1] in (["Z"], ["X"])


def _guarded(found: Dict[str, Any], read: Callable[[], List[str]]) -> List[str]:
    """The list from `read`; empty for a process that has ended; one that may not be examined is marked."""
    try:
        return read()
    except PermissionError:
        found["denied"] = True
    except OSError:
        pass
    return []


def _open_files(root: str, home: str) -> List[str]:
    folder = below(root, home + "/fd")
    paths = []
    for name in os.listdir(folder):
        try:
            paths.append(_text(os.readlink(os.path.join(folder, name))))
        except PermissionError:
            # Root without CAP_SYS_PTRACE may list them but not see where they lead.
            raise
        except OSError:
            continue
    return [path for path in paths if path.startswith("/")]


def _places(root: str, home: str) -> List[str]:
    """The working folder and the root folder of the process."""
    paths = [_link(root, f"{home}/{name}") for name in ("cwd", "root")]
    return [path for path in paths if path and path != "/"]


def _mapped(root: str, home: str) -> Iterator[str]:
    """The files in its memory. "7f12-7f34 r-xp 00000000 fd:00 1234    /path with spaces (deleted)\""""
    with open(below(root, home + "/maps"), "rb") as file:
        seen = set()
        for line in file.read(MOST_BYTES).splitlines():
            path = line.split(None, 5)[5:]
            if path and path[0].startswith(b"/") and path[0] not in seen:
                seen.add(path[0])
                text = path[0].decode("utf-8", "replace")
                yield text[: -len(DELETED)] if text.endswith(DELETED) else text


def _called(root: str, home: str, folder: Folder) -> List[str]:
    """The paths with which it was started: the program's and, for an interpreter, also that of the script it runs."""
    words = _words(root, home + "/cmdline")
    program = os.path.basename(_link(root, home + "/exe") or (words or [""])[0])
    if not INTERPRETER.match(program.replace(DELETED, "")):
        return [word for word in words[:1] if word.startswith("/")]
    found = [word for word in words if word.startswith("/")]
    if words and not words[0].startswith("/"):
        # Started by its bare name in a shell in which an environment is activated.
        active = [word[len("VIRTUAL_ENV=") :] for word in _words(root, home + "/environ")
                  if word.startswith("VIRTUAL_ENV=/")]  # fmt: skip
        found = active[:1] + found
    return found


def _words(root: str, path: str) -> List[str]:
    try:
        with open(below(root, path), "rb") as file:
            data = file.read(MOST_ARGUMENTS_BYTES)
    except OSError:
        return []
    return [word.decode("utf-8", "replace") for word in data.split(b"\0") if word]


def _is_link(folder: Folder, path: str) -> bool:
    """Whether the path begins with a link to an environment: later imports then come from wherever the link leads."""
    for top in {folder.venvs, folder.real}:
        rest = rest_below(top, path)
        if rest and _link(folder.root, f"{folder.real}/{rest.split('/')[0]}") is not None:
            return True
    return False


def _first(pattern: Pattern[str], text: str, group: int) -> str:
    match = pattern.search(text)
    return match.group(group) if match else ""


def _last(pattern: Pattern[str], text: str) -> Optional[Match[str]]:
    """The last match, which is the innermost part of a control group's path; None if there is none."""
    found = list(pattern.finditer(text))
    return found[-1] if found else None
