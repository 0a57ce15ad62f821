# SPDX-License-Identifier: Apache-2.0
"""What the package manager makes of a repository, against what the toolkit wants of it.

Of a repository that the toolkit has not written, only that is judged which would let something unsigned in: a driver
that was there before has its repository from somebody else.
"""

import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ..host.files import exists
from ..packages.repositories import DNF_CONF, expand
from . import apt_files, ask_apt, ask_dnf, dnf_files
from .others import Other
from .relied import Entry, Relied, is_relied, is_written

YES = ("yes", "true", "with", "on", "enable", "1")
# Options of one source with which apt takes what nobody has signed.
UNSIGNED = ("trusted", "allow-insecure", "allow-downgrade-to-insecure")
# The bundle's own repositories: its signed list vouches for each file.
OF_BUNDLE = "gpuwright-"


class Difference(NamedTuple):
    """`what` of the repository `id` is `found` where `wanted` was asked for; `place` is the file, with a line if known.

    id is "" for what concerns no particular one.
    """

    id: str
    place: str
    what: str
    wanted: str
    found: str


def words(one: Difference) -> str:
    return f"{one.place}: {one.what} is {one.found}, and should be {one.wanted}"


def of_others(others: Sequence[Other]) -> List[Difference]:
    return [
        Difference(
            one.relied.id, one.entry.place, f"a source of {one.relied.id}", f"in {one.relied.file} alone", "there"
        )
        for one in others
    ]


def of_dnf(
    relied: Relied, answer: ask_dnf.Answer, files: Sequence[dnf_files.File], root: str = "/"
) -> List[Difference]:
    """What dnf makes of one repository; [] where nothing has configured it."""
    folder = os.path.dirname(relied.file)
    if folder not in answer.reposdir and exists(root, relied.file):
        return [Difference(relied.id, DNF_CONF, "reposdir", folder, _text(answer.reposdir))]
    entries = [entry for file in files for entry in file.entries]
    ours = next((entry for entry in entries if is_written(entry, relied)), None)
    mine = answer.repositories.get(relied.id)
    if ours is None:
        strangers = [answer.repositories.get(entry.id) for entry in entries if is_relied(entry, relied)]
        return [_unsigned(relied.id, one, files) for one in strangers if one and _is_unsigned(one)]
    if mine is None or mine["file"] != relied.file:
        found = _place(relied.id, mine["file"], files) if mine else "nothing"
        return [Difference(relied.id, ours.place, "what dnf takes", relied.file, found)]
    address = expand(relied.url, root, dnf_files.release(root))
    wanted: Dict[str, Any] = {
        "enabled": True,
        "gpgcheck": relied.packages_signed,
        "repo_gpgcheck": relied.metadata_signed,
        "sslverify": True,
        "baseurl": [address.rstrip("/")],
        "metalink": "",
        "mirrorlist": "",
        "gpgkey": ["file://" + relied.key_file],
    }
    uses = dict(mine, baseurl=[url.rstrip("/") for url in mine["baseurl"]])
    return [
        Difference(relied.id, ours.place, name, _text(value), _text(uses[name]))
        for name, value in wanted.items()
        if uses[name] != value
    ]


def unsigned_of_dnf(answer: ask_dnf.Answer, files: Sequence[dnf_files.File]) -> List[Difference]:
    """Every repository that is on and of which neither the packages nor the metadata must be signed."""
    return [
        _unsigned(name, one, files)
        for name, one in sorted(answer.repositories.items())
        if _is_unsigned(one) and not name.startswith(OF_BUNDLE)
    ]


def _is_unsigned(one: Mapping[str, Any]) -> bool:
    return bool(one["enabled"] and not one["gpgcheck"] and not one["repo_gpgcheck"])


def _unsigned(name: str, one: Mapping[str, Any], files: Sequence[dnf_files.File]) -> Difference:
    return Difference(name, _place(name, one["file"], files), f"gpgcheck of {name}", "1", "0")


def _place(name: str, path: str, files: Sequence[dnf_files.File]) -> str:
    entries = [entry for file in files for entry in file.entries]
    return next((entry.place for entry in entries if entry.path == path and entry.id == name), path)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return (" ".join(value) if isinstance(value, list) else str(value)) or "nothing"


def of_apt(
    relied: Relied,
    answer: ask_apt.Answer,
    fetched: ask_apt.Answer,
    texts: Mapping[str, str],
    places: apt_files.Places,
) -> List[Difference]:
    """What apt makes of one repository; [] where nothing has configured it. `answer` has no problem.

    fetched  what apt says of what it has fetched, "" where it has fetched nothing
    """
    folder = os.path.dirname(relied.file)
    if folder != places.parts and relied.file in texts:
        return [Difference(relied.id, f"{apt_files.CONF}*", "Dir::Etc::sourceparts", folder, places.parts)]
    entries = [one for path, text in texts.items() for one in apt_files.parse(path, text, places.architecture)]
    ours = next((entry for entry in entries if is_written(entry, relied)), None)
    if ours is None:
        strangers = [entry for entry in entries if is_relied(entry, relied)]
        return [found for found in (_loose(relied.id, one) for one in strangers) if found]
    asked = [target for target in answer.targets if is_relied(_as_entry(target), relied)]
    mine = [target for target in asked if target.path == relied.file]
    if not mine:
        return [Difference(relied.id, ours.place, "what apt takes", relied.file, "nothing")]
    found = [
        Difference(relied.id, f"{target.path}:{target.number}", "what apt takes", relied.file, target.path)
        for target in asked
        if target.path != relied.file
    ]
    wanted_address = apt_files.address_of(relied.url, "/", places.architecture)
    if mine[0].address != wanted_address:
        found.append(Difference(relied.id, ours.place, "URIs", wanted_address, mine[0].address))
    loose = _loose(relied.id, ours)
    if loose:
        found.append(loose)
    for target in fetched.targets:
        if target.path == relied.file and target.trusted == "no":
            found.append(Difference(relied.id, ours.place, "what apt has fetched", "signed by that key", "not signed"))
    return found


def _as_entry(target: ask_apt.Target) -> Entry:
    return Entry(target.path, target.number, target.number, "", (target.address,), True, {})


def _loose(name: str, entry: Entry) -> Optional[Difference]:
    for option in UNSIGNED:
        value = entry.values.get(option, "no")
        if entry.enabled and value.lower() in YES:
            return Difference(name, entry.place, option, "no", value)
    return None


def unsigned_of_apt(texts: Mapping[str, str], settings: Mapping[str, str]) -> List[Difference]:
    """Sources, and settings for all of them, with which apt takes what nobody has signed.

    settings  text of each file of apt's configuration
    """
    entries = [entry for path, text in texts.items() for entry in apt_files.parse(path, text)]
    found = [one for one in (_loose("", entry) for entry in entries) if one]
    for path, text in settings.items():
        for number, line in enumerate(text.splitlines(), 1):
            match = apt_files.LOOSE.search(line.partition("//")[0].partition("#")[0])
            if match and match.group(2).lower() in YES:
                found.append(Difference("", f"{path}:{number}", match.group(1), "false", match.group(2)))
    return found
