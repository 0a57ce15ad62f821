"""On the node: change each thing that a role looked at in every way there is, and ask whether the record shows it.

Prints {found: [{roles, what, seen, mended}], changed}: `changed` are the roles whose things differ at the end, where
all has been put back.
"""

import json
import os
import shutil
import subprocess
import sys

# The folder that holds the package gpuwright, whose part `settled` no node keeps.
sys.path.insert(0, sys.argv[1])
from gpuwright.settled.record import PATH, read_settled
from gpuwright.settled.watch import look

with open(PATH) as record:
    RECORD = json.load(record)["roles"]
BESIDE = "/var/tmp/of-a-tamper-test"


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
    shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)


def elsewhere(path):
    gone(path)
    os.symlink("/dev/null", path)


def broken(path):
    gone(path)
    os.symlink("/nowhere", path)


def more(path):
    with open(os.path.join(path, "of-nobody"), "w"):
        pass


def first_file(folder):
    """The first file below the folder that is no product of Python."""
    for place, _folders, files in sorted(os.walk(folder)):
        for name in sorted(files):
            if not os.path.islink(os.path.join(place, name)) and "__pycache__" not in place:
                return os.path.join(place, name)
    raise OSError("no file below %s" % folder)


def deep(path):
    content(first_file(path))


def created(path):
    with open(path, "w"):
        pass


def ways(kind, path):
    if kind in ("file", "folder", "tree"):
        if not os.path.lexists(path):
            return [created]
        if os.path.islink(path):
            return [elsewhere, broken, gone, owner]
        if os.path.isdir(path):
            return [mode, owner] + ([more, deep] if kind == "tree" else [])
        return [content, empty, mode, owner, gone, elsewhere]
    return []


# Without these, the programs that look could not work themselves.
NEEDED = ("/etc/passwd", "/etc/group", "/etc/shadow", "/etc/gshadow")


def rows():
    """(thing, way) for each thing that any role looked at."""
    things = {(kind, name) for role in RECORD.values() for kind, name, _text in role["seen"]}
    for kind, name in sorted(things):
        for way in ways(kind, name):
            if name not in NEEDED or way in (mode, owner):
                yield (kind, name), way
        if kind in ("unit", "active"):
            yield (kind, name), None


def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def tamper_unit(thing):
    """Disabled or stopped, and back."""
    change, back = ("disable", "enable") if thing[0] == "unit" else ("stop", "start")
    run("systemctl", change, thing[1])
    try:
        return look([thing])[thing]
    finally:
        run("systemctl", back, thing[1])


def tamper(thing, way):
    """What is seen of the thing while it is changed."""
    path = thing[1]
    before = os.lstat(path) if os.path.lexists(path) else None
    place = first_file(path) if way is deep else path
    # A folder's own mode and owner are put back as such; a copy of all that is below would not be the same.
    copied = before is not None and (way is deep or os.path.islink(path) or not os.path.isdir(path))
    if copied:
        run("cp", "-a", place, BESIDE)
    try:
        way(path)
        return look([thing])[thing]
    finally:
        if way is more:
            os.unlink(os.path.join(path, "of-nobody"))
        elif before is None:
            os.unlink(path)
        elif copied:
            if os.path.lexists(place):
                os.unlink(place)
            run("mv", BESIDE, place)
        else:
            os.lchown(path, before.st_uid, before.st_gid)
            os.chmod(path, before.st_mode & 0o7777)


def main():
    found = []
    for thing, way in rows():
        seen = tamper(thing, way) if way else tamper_unit(thing)
        roles = [name for name, role in RECORD.items() if list(thing) in [each[:2] for each in role["seen"]]]
        recorded = [each[2] for role in RECORD.values() for each in role["seen"] if tuple(each[:2]) == thing]
        now = look([thing])[thing]
        found.append(
            {
                "roles": roles,
                "what": "%s %s: %s" % (thing + (way.__name__ if way else "other state",)),
                "seen": seen not in recorded,
                # A tree is compared by times, too, so a file that was put back is another one.
                "mended": now in recorded or thing[0] == "tree",
            }
        )
    changed = {name for name, role in read_settled().items() if role["changed"]}
    print(json.dumps({"found": found, "changed": sorted(changed)}))


if __name__ == "__main__":
    main()
