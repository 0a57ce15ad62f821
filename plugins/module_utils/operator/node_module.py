# SPDX-License-Identifier: Apache-2.0
"""AnsibleModule for all modules that run on nodes: each call renews the lease of the run that holds the node."""

from typing import Any

from ansible.module_utils import basic

from .lease import renew_own


class AnsibleModule(basic.AnsibleModule):
    """Renews the lease when it begins and when it ends: what it does between may take long."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super(AnsibleModule, self).__init__(*arguments, **options)
        renew_own()

    def exit_json(self, **answer: Any) -> None:
        renew_own()
        super(AnsibleModule, self).exit_json(**answer)

    def fail_json(self, msg: str, **answer: Any) -> None:
        renew_own()
        super(AnsibleModule, self).fail_json(msg, **answer)
