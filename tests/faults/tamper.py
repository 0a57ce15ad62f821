"""On the node: change each thing that the stamp is made of in every way there is, and whether a probe sees it.

Prints {found: [{what, seen, mended}], left}: `mended` is whether nothing but a tree differs once it is put back, and
`left` what differs at the end.
"""

import json
import os
import shutil
import subprocess
import sys

# The folder that holds the package gpuwright, whose part `first_record` no node keeps.
sys.path.insert(0, sys.argv[1])
from gpuwright.first_record import effective, places
from gpuwright.first_record.look import read_files
from gpuwright.first_record.stamp import STAMP, read_stamp

BESIDE = "/var/tmp/of-a-tamper-test"
# Without these, the programs that look could not work themselves.
NEEDED = ("/etc/gpuwright",)
RUNNING = ("gpuwright-check.timer", "gpuwright-check.path")


def content(path):
    with open(path, "ab") as file:
        file.write(b"# somebody was here\n")


def empty(path):
    with open(path, "wb"):
        pass


def mode(path):
    os.chmod(path, os.lstat(path).st_mode ^ 0o022)


def owner(path):
    os.lchown(path, 12, 12)


def gone(path):
    os.unlink(path)


def elsewhere(path):
    gone(path)
    os.symlink("/dev/null", path)


def broken(path):
    gone(path)
    os.symlink("/nowhere", path)


def ways(path):
    if os.path.islink(path):
        return [elsewhere, broken, gone, owner]
    if os.path.isdir(path):
        return [mode, owner]
    return [content, mode, owner, gone, elsewhere] + ([empty] if os.path.getsize(path) else [])


def paths():
    """All files, folders and links that roles ask for, and one file of each tree."""
    with open(STAMP) as file:
        named = [name for name in json.load(file)["names"] if name.startswith("/")]
    found = {path for path in read_files("/") if places.is_wanted(path)}
    found |= {path for path in [*named, *places.NAMED, *effective.tuned_files("/")] if os.path.lexists(path)}
    # Programs of packages, which rpm looks after, are too large to be copied here and there.
    found = {path for path in found if not (os.path.isfile(path) and os.path.getsize(path) > 1024 * 1024)}
    for tree in places.STAMPED_TREES:
        found |= set(first_of(tree))
    # What is mounted read-only, as the fleet's wheels are, is nobody's to change.
    return sorted(path for path in found if os.path.islink(path) or not os.statvfs(path).f_flag & os.ST_RDONLY)


def first_of(tree):
    """The first file, and the first folder and link, below a tree."""
    wanted = {os.path.isfile: 1, os.path.isdir: 1, os.path.islink: 1}
    for place, folders, files in sorted(os.walk(tree)):
        for path in sorted(os.path.join(place, name) for name in [*folders, *files]):
            for kind in list(wanted):
                if kind(path) and "__pycache__" not in path and (kind is os.path.islink or not os.path.islink(path)):
                    wanted.pop(kind)
                    yield path


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def tampered(path, way):
    """What differs while the path is changed; then it is put back."""
    before = os.lstat(path)
    # A folder's own mode and owner are put back as such; a copy of all that is below would not be the same.
    copied = os.path.islink(path) or not os.path.isdir(path)
    if copied:
        run("cp", "-a", path, BESIDE)
    try:
        way(path)
        return read_stamp()["changed"]
    finally:
        if copied:
            if os.path.lexists(path):
                os.unlink(path)
            run("mv", BESIDE, path)
        else:
            os.lchown(path, before.st_uid, before.st_gid)
            os.chmod(path, before.st_mode & 0o7777)


def switched():
    """(what, the command, and the one that undoes it) of units, accounts and settings."""
    for unit in (
        "gpuwright-devices.service",
        "gpuwright-check.timer",
        "gpuwright-check.path",
        "nvidia-persistenced.service",
    ):
        yield unit + " disabled", ["systemctl", "disable", unit], ["systemctl", "enable", unit]
    for unit in RUNNING:
        yield unit + " stopped", ["systemctl", "stop", unit], ["systemctl", "start", unit]
    # Of a package: a unit file below /etc wins over a mask in /run, and stands where a mask in /etc would.
    masked = ["systemctl", "--runtime", "mask", "nvidia-persistenced.service"]
    yield "a service masked", masked, ["systemctl", "--runtime", "unmask", "nvidia-persistenced.service"]
    yield "another shell", ["usermod", "-s", "/bin/bash", "trainer"], ["usermod", "-s", "/sbin/nologin", "trainer"]
    yield "unlocked", ["usermod", "-p", "x", "trainer"], ["usermod", "-p", "!", "trainer"]
    yield "another group", ["usermod", "-aG", "users", "trainer"], ["gpasswd", "-d", "trainer", "users"]


def main():
    found = []
    for path in paths():
        for way in ways(path):
            if path in NEEDED and way is owner:
                continue
            seen = tampered(path, way)
            # A tree is compared by times, too, so a file that was put back is another one.
            mended = read_stamp()["changed"] in ([], ["trees"])
            found.append({"what": "%s: %s" % (path, way.__name__), "seen": bool(seen), "mended": mended})
    trees = read_stamp()["changed"]
    for what, change, back in switched():
        run(*change)
        seen = read_stamp()["changed"]
        run(*back)
        found.append({"what": what, "seen": seen != trees, "mended": read_stamp()["changed"] == trees})
    shutil.rmtree(BESIDE, ignore_errors=True)
    print(json.dumps({"found": found, "left": read_stamp()["changed"]}))


if __name__ == "__main__":
    main()
