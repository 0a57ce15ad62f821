# SPDX-License-Identifier: Apache-2.0
"""AnsibleModule for all modules that run on nodes: each call renews the lease of the run that holds the node."""

import os
from typing import Any

from ansible.module_utils import basic

from .renewal import VARIABLE, lost_to, renew_own

# These ask for the lock, and say themselves who has it.
ASK = ("operator_lock", "gpu_verify")
LOST = (
    "A run of {} has taken the lock of this host over, since this run was not heard of for minutes: nothing more of it "
    "is done here. Next: wait until that run has ended, then run this again [operator.busy]"
)


class AnsibleModule(basic.AnsibleModule):
    """Renews the lease when it begins and when it ends: what it does between may take long."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super(AnsibleModule, self).__init__(*arguments, **options)
        other = lost_to(os.environ.get(VARIABLE, ""))
        if other and not self.check_mode and not str(self._name).endswith(ASK):
            super(AnsibleModule, self).fail_json(msg=LOST.format(other))
        renew_own()

    def exit_json(self, **answer: Any) -> None:
        renew_own()
        super(AnsibleModule, self).exit_json(**answer)

    def fail_json(self, msg: str, **answer: Any) -> None:
        renew_own()
        super(AnsibleModule, self).fail_json(msg, **answer)
