# SPDX-License-Identifier: Apache-2.0
"""Which components of its own distribution a Debian or Ubuntu host may install from, and the file that adds others.

apt itself is asked where its packages come from: it reads both formats of sources, and it knows from the signed Release
files which of them are the distribution's, whatever the mirror is called.
"""

from typing import Any, Callable, Collection, Dict, Iterable, List, NamedTuple, Sequence, Set, Tuple

from ..host.bounded import (
    Finished,
    run_bounded,
)

FIELDS = "$(SOURCESENTRY)|$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)"
KEYRINGS = {
    "Debian": "/usr/share/keyrings/debian-archive-keyring.gpg",
    "Ubuntu": "/usr/share/keyrings/ubuntu-archive-keyring.gpg",
}
# The component that each of the distribution's own repositories has.
FIRST_COMPONENT = "main"
APT_SECONDS = 60


class Target(NamedTuple):
    """One index of packages: the file that configures it, its Release file's origin, and where it is."""

    file: str
    origin: str
    uri: str
    suite: str
    component: str


def read_targets(run: Callable[..., Finished] = run_bounded) -> List[Target]:
    """The indexes that the sources configure, with the origins that apt has read; OSError if apt cannot report them.

    With origins, apt leaves out an index without a package, such as a young release's security/multiverse.
    """
    origins = {(target.uri, target.suite): target.origin for target in _ask(run)}
    return [
        target._replace(origin=origins.get((target.uri, target.suite), "")) for target in _ask(run, "--no-release-info")
    ]


def _ask(run: Callable[..., Finished], *how: str) -> List[Target]:
    done = run(["apt-get", "indextargets", *how, "--format", FIELDS, "Created-By: Packages"], APT_SECONDS)
    if done.rc != 0:
        raise OSError(f"apt-get indextargets: {done.problem or done.stderr.strip()[-300:]}")
    return parse_targets(done.stdout)


def parse_targets(text: str) -> List[Target]:
    """Lines of `apt-get indextargets` in the format of FIELDS; a line in another format is left out."""
    found = []
    for line in text.splitlines():
        words = line.split("|")
        if len(words) == 5:
            # "/etc/apt/sources.list:3": the number of the line or stanza.
            found.append(Target(words[0].rpartition(":")[0], *words[1:]))
    return found


def own_targets(targets: Iterable[Target]) -> List[Target]:
    """The indexes of the distribution itself."""
    return [target for target in targets if target.origin in KEYRINGS]


def wanted_stanzas(
    targets: Iterable[Target], components: Sequence[str], file: str
) -> List[Tuple[str, str, Tuple[str, ...], Tuple[str, ...]]]:
    """What `file` has to add so that every suite of the distribution has all `components`, in apt's order of sources.

    Returns `[(origin, uri, (suite, ...), (component, ...)), ...]`; what other files configure is not repeated, since
    apt would complain about that at every update.
    """
    elsewhere: Dict[Tuple[str, str, str], Set[str]] = {}
    for target in own_targets(targets):
        if target.file != file:
            elsewhere.setdefault((target.origin, target.uri, target.suite), set()).add(target.component)
    stanzas: Dict[Tuple[str, str, Tuple[str, ...]], List[str]] = {}
    for (origin, uri, suite), present in elsewhere.items():
        missing = tuple(name for name in components if name not in present)
        if FIRST_COMPONENT in present and missing:
            stanzas.setdefault((origin, uri, missing), []).append(suite)
    return [(origin, uri, tuple(suites), missing) for (origin, uri, missing), suites in stanzas.items()]


def sources_text(stanzas: Any, keyrings: Collection[str]) -> str:
    """The deb822 file for `wanted_stanzas`; `keyrings` are the paths of KEYRINGS that the host has. Empty for none."""
    blocks = []
    for origin, uri, suites, components in stanzas:
        lines = ["Types: deb", "URIs: " + uri, "Suites: " + " ".join(suites), "Components: " + " ".join(components)]
        if KEYRINGS[origin] in keyrings:
            lines.append("Signed-By: " + KEYRINGS[origin])
        blocks.append("\n".join(lines) + "\n")
    return "# Written by gpuwright: more components of the mirrors configured elsewhere here.\n\n" * bool(
        blocks
    ) + "\n".join(blocks)
