# SPDX-License-Identifier: Apache-2.0
"""The rollback's transaction, tried without changing anything: when packages are kept, and before they are put back.

Its exit status decides: `dnf shell`, which carries it out, ends with 0 whatever happens in it. So dnf's own Python does
the same with the flag by which rpm only tests (dnf.conf(5), tsflags; rpm(8), --test); apt has -s.
"""

import json
from typing import Any, List, Mapping, Sequence

from ...host.bounded import Finished, run_bounded
from ...host.os_family import python_of_dnf
from ..kept_record import KeptError, Refused

SECONDS = 600
SHOWN_LINES = 12
PROGRAM = """
import json, sys
import dnf, dnf.rpm
asked = json.loads(sys.argv[1])
base = dnf.Base()
conf = base.conf
conf.read()
if conf.releasever is None:
    conf.releasever = dnf.rpm.detect_releasever(conf.installroot)
conf.substitutions.update_from_etc(conf.installroot)
conf.assumeyes, conf.localpkg_gpgcheck, conf.clean_requirements_on_remove = True, True, False
conf.tsflags = ["test"]
base.init_plugins()
base.pre_configure_plugins()
if asked["online"]:
    base.read_all_repos()
base.configure_plugins()
base.fill_sack(load_system_repo=True, load_available_repos=asked["online"])
packages = base.add_remote_rpms(asked["files"])
for package in packages:
    base.package_reinstall(package) if asked["again"] else base.package_install(package)
for name in asked["gone"]:
    base.remove(name)
base.resolve(allow_erasing=True)
for package in base.transaction.install_set:
    code, why = base.package_signature_check(package)
    if code:
        sys.exit("the signature of %s does not count: %s" % (package, why))
base.download_packages([one for one in base.transaction.install_set if not one._from_cmdline])
base.do_transaction()
"""


def prove_kept(family: str, files: Mapping[Any, str]) -> None:
    """The packages that are installed could be installed once more from these files; KeptError."""
    if not files:
        return
    done = _tried(family, sorted(files.values()), [], again=True, online=False)
    if done.rc != 0:
        raise KeptError(
            f"The packages that were kept could not be put back: a trial of it ended with {_words(done)}. Nothing was "
            "changed. Make this right, or upgrade without a way back: upgrade_keep: nothing [upgrade.packages]"
        )


def prove_put_back(family: str, files: Sequence[str], gone: Sequence[str], driver: str) -> None:
    """Installing these files and removing these names would succeed, at least with the repositories; `Refused`."""
    tries = [_tried(family, files, gone, again=False, online=False)]
    if tries[0].rc != 0 and family == "redhat":
        tries.append(_tried(family, files, gone, again=False, online=True))
    if tries[-1].rc != 0:
        raise Refused(
            f"The packages of driver {driver} cannot be put back: a trial of it ended with {_words(tries[0])}. No "
            "package was changed. Make this right and run again, or install that driver with site.yml and "
            "system_driver_version [rollback.packages]"
        )


def _tried(family: str, files: Sequence[str], gone: Sequence[str], again: bool, online: bool) -> Finished:
    if family == "debian":
        command = ["apt-get", "-s", "-q", "--allow-downgrades", "--no-install-recommends", "install"]
        return run_bounded(command + (["--reinstall"] if again else []) + apt_words(files, gone), timeout=SECONDS)
    asked = {"files": list(files), "gone": list(gone), "again": again, "online": online}
    return run_bounded([python_of_dnf(), "-c", PROGRAM, json.dumps(asked)], timeout=SECONDS)


def apt_words(files: Sequence[str], gone: Sequence[str]) -> List[str]:
    """What apt is told to install and to remove."""
    return list(files) + [name + "-" for name in gone]


def _words(done: Finished) -> str:
    said = (done.problem or done.stderr.strip() or done.stdout.strip()).splitlines()[-SHOWN_LINES:]
    return f"status {done.rc}: " + " / ".join(line.strip() for line in said)
