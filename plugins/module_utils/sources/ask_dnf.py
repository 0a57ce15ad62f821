# SPDX-License-Identifier: Apache-2.0
"""What dnf itself makes of all its files: each repository as it would use it, asked without a network.

By dnf's own Python, which is not always the one that runs this, and in a process of its own: dnf's bindings keep state.
"""

import json
from typing import Any, Callable, Dict, List, NamedTuple

from ..host.bounded import Finished, run_bounded
from ..host.os_family import NoDnf, python_of_dnf

__all__ = ["Answer", "NoDnf", "ask"]

SECONDS = 60
RunProgram = Callable[..., Finished]
# dnf/cli/cli.py reads its configuration in these steps.
PROGRAM = """
import json, logging, sys
import dnf, dnf.rpm
class Kept(logging.Handler):
    said = []
    def emit(self, record):
        self.said.append(record.getMessage())
logging.getLogger("dnf").addHandler(Kept())
base = dnf.Base()
conf = base.conf
conf.read()
if conf.releasever is None:
    conf.releasever = dnf.rpm.detect_releasever(conf.installroot)
conf.substitutions.update_from_etc(conf.installroot)
base.read_all_repos()
names = ("enabled", "gpgcheck", "repo_gpgcheck", "sslverify")
lists = ("baseurl", "gpgkey")
texts = ("metalink", "mirrorlist")
found = {}
for repo in base.repos.values():
    one = {name: bool(getattr(repo, name)) for name in names}
    one.update({name: list(getattr(repo, name) or []) for name in lists})
    one.update({name: getattr(repo, name) or "" for name in texts})
    found[repo.id] = dict(one, file=repo.repofile or "")
json.dump({"repositories": found, "reposdir": list(conf.reposdir), "said": Kept.said}, sys.stdout)
"""


class Answer(NamedTuple):
    """`repositories` by id, `reposdir`, and the warnings that dnf has for people, as about files that it skips."""

    repositories: Dict[str, Dict[str, Any]]
    reposdir: List[str]
    said: List[str]


def ask(run: RunProgram = run_bounded) -> Answer:
    """OSError if dnf does not answer; `NoDnf` if there is none."""
    done = run([python_of_dnf(), "-c", PROGRAM], SECONDS)
    try:
        if done.rc != 0:
            raise ValueError(done.problem or (done.stderr.strip().splitlines() or ["no reason"])[-1][:300])
        # dnf's libraries print a line of their own where they cannot write their log.
        record = json.loads(done.stdout[done.stdout.index("{") :])
        return Answer(record["repositories"], record["reposdir"], record["said"])
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"dnf cannot say which repositories it has: {error}")
