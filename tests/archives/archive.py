"""The archives of one release of Debian, asked by this machine's apt: own lists, nothing installed, without root.

They come from the addresses that apt uses here (as the fleet's userland does): one mirror has all releases.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

COMPONENTS = "main contrib non-free non-free-firmware"
SUITES = {"12": "bookworm", "13": "trixie"}
BACKPORTS = "-backports"
UPDATE_SECONDS, ASK_SECONDS = 300, 120
PIN = "Package: {}\nPin: version {}\nPin-Priority: 1001\n"


class NotAsked(Exception):
    """A source that an answer would need did not answer; the text names it, without its address."""


def sources_of(lines: Sequence[str], suite: str) -> dict[str, str]:
    """`{suite with its ending: line of sources.list}` of the fleet's deb lines, with all components and backports."""
    found: dict[str, str] = {}
    for line in lines:
        _deb, address, name, _component = line.split()
        found[name] = f"deb {address} {name} {COMPONENTS}"
        if name == suite:
            found[suite + BACKPORTS] = f"deb {address} {suite}{BACKPORTS} {COMPONENTS}"
    return found


@dataclass
class Archive:
    """`sources` as sources_of returns them; `wanted` are the suites without which no answer counts.

    reached, silent  suites that answered and did not
    """

    suite: str
    folder: Path
    sources: Mapping[str, str]
    options: Sequence[str] = ()
    reached: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)

    def fetch(self) -> None:
        """The lists of every suite, each on its own, so that one that does not answer hides no other."""
        for name in ("state/lists/partial", "cache/archives/partial", "preferences.d"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "state/status").touch()
        names = {self.suite, f"{self.suite}-security", f"{self.suite}-updates", self.suite + BACKPORTS}
        for name in sorted(names):
            line = self.sources.get(name)
            done = self._apt(line, UPDATE_SECONDS, "update") if line else None
            (self.reached if done is not None and done.returncode == 0 else self.silent).append(name)

    def versions(self, package: str) -> list[str]:
        """The upstream versions that all of it offers, oldest first: 535.309.01 of 535.309.01-0+deb12u1."""
        if not self.reached:
            return []
        done = self._apt(self._lines(), ASK_SECONDS, package, program="apt-cache", words=("madison",))
        found = {line.split("|")[1].strip() for line in done.stdout.splitlines() if line.count("|") > 1}
        return sorted({re.sub(r"^[0-9]+:", "", version).rpartition("-")[0] for version in found})

    def refusal(self, packages: Sequence[str], preference: Mapping[str, str] | None = None) -> str:
        """Why apt would not install these packages on an empty system, in its own words; "" if it would.

        preference  of the plan: package and version, which is kept to as the role has it kept. NotAsked: see there.
        """
        needed = [name for name in self.silent if not name.endswith(BACKPORTS)]
        if needed:
            raise NotAsked(", ".join(needed))
        file = self.folder / "preferences.d/gpuwright"
        pinned = preference and preference["version"]
        file.write_text(PIN.format(preference["package"], preference["version"]) if preference and pinned else "")
        words = ("--simulate", "--no-install-recommends", "install")
        done = self._apt(self._lines(), ASK_SECONDS, *packages, words=words)
        if done.returncode == 0:
            return ""
        said = [line for line in done.stdout.splitlines() if "Depends:" in line or "but " in line]
        return "\n".join([*said, *done.stderr.splitlines()]) or f"apt-get ended with {done.returncode}"

    def unpacked(self, package: str) -> Path:
        """A folder with the files of this package at the newest version that answers; nothing of it is run."""
        if self.suite not in self.reached:
            raise NotAsked(self.suite)
        tree = self.folder / "unpacked" / package
        tree.mkdir(parents=True)
        done = self._apt(self._lines(), UPDATE_SECONDS, package, words=("download",), folder=tree.parent)
        files = sorted(tree.parent.glob(f"{package}_*.deb"))
        if done.returncode != 0 or len(files) != 1:
            raise AssertionError(f"apt-get download {package}: {done.stderr or files}")
        subprocess.run(["dpkg-deb", "--extract", str(files[0]), str(tree)], check=True)
        return tree

    def _lines(self) -> str:
        return "\n".join(self.sources[name] for name in self.reached)

    def _apt(
        self,
        lines: str,
        seconds: int,
        *arguments: str,
        program: str = "apt-get",
        words: Sequence[str] = (),
        folder: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        listed = self.folder / "sources.list"
        listed.write_text(lines + "\n")
        own = {
            "Dir::State": self.folder / "state",
            "Dir::State::status": self.folder / "state/status",
            "Dir::Cache": self.folder / "cache",
            "Dir::Etc::sourcelist": listed,
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": self.folder / "preferences.d",
            "APT::Sandbox::User": "",
            "APT::Architecture": "amd64",
            "APT::Get::List-Cleanup": "false",
            "APT::Update::Error-Mode": "any",
            "Acquire::Languages": "none",
            "Acquire::Retries": "1",
            "Acquire::http::Timeout": "30",
        }
        options = [word for key, value in own.items() for word in ("-o", f"{key}={value}")]
        more = [
            word for option in self.options for word in ("-o", option.rstrip(";").replace(' "', "=", 1).rstrip('"'))
        ]
        return subprocess.run(
            [program, *options, *more, *words, *arguments],
            capture_output=True,
            text=True,
            timeout=seconds,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
            check=False,
            cwd=folder,
        )
