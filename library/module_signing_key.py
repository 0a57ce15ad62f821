#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Ansible module: makes the key with which DKMS signs, and stages its import into the firmware's list."""

DOCUMENTATION = r"""
module: module_signing_key
short_description: Make the signing key of DKMS and stage its import for Secure Boot
description:
  - Makes key and certificate with C(openssl) where DKMS looks for them, unless they exist, and asks the firmware
    with C(mokutil --import) to enrol the certificate. A person confirms this at the console at the next boot; the
    module reboots nothing.
  - A request that is already staged with the same password is left as it is. The firmware's state is read from its
    variables, before and after.
  - The hash is written to a file that only root can read and that is removed at once; it appears in no program's
    arguments and in no output.
options:
  certificate:
    description: Path of the certificate (DER); C(gpu_node.module_key.certificate).
    type: path
    required: true
  private_key:
    description: Path of the private key, or a C(pkcs11:) address whose certificate already exists.
    type: str
    required: true
  password_hash:
    description: Hash of the password that the console will ask for, as crypt(3) writes it (C($6$...), C($5$...) or
      C($2y$...)).
    type: str
    required: true
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Stage the import of DKMS's signing key
  gpuwright.node.module_signing_key:
    certificate: /var/lib/dkms/mok.pub
    private_key: /var/lib/dkms/mok.key
    password_hash: "{{ vault_mok_password_hash }}"
"""

RETURN = r"""
state:
  description: C(staged), which waits for a person at the console, or C(enrolled).
  type: str
  returned: success
  sample: staged
done:
  description: What was done, or in check mode would be.
  type: list
  elements: str
  returned: success
  sample: [made the key /var/lib/dkms/mok.key, staged the import]
remarks:
  description: Anything unusual about the request, such as an earlier one that was not confirmed.
  type: list
  elements: str
  returned: success
dialogue:
  description: What the console shows at the next boot, screen by screen.
  type: list
  elements: str
  returned: success
"""

from ansible_collections.gpuwright.node.plugins.module_utils.host.secure_boot.module_key import KeyPlace
from ansible_collections.gpuwright.node.plugins.module_utils.host.secure_boot.mok_password import hash_problem
from ansible_collections.gpuwright.node.plugins.module_utils.host.secure_boot.mok_request import dialogue, prepare
from ansible_collections.gpuwright.node.plugins.module_utils.host.secure_boot.signing_pair import Refused
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule


def main() -> None:
    """Make the key, stage its import, and say what the console will ask."""
    module = AnsibleModule(
        argument_spec={
            "certificate": {"type": "path", "required": True},
            "private_key": {"type": "str", "required": True, "no_log": False},
            "password_hash": {"type": "str", "required": True, "no_log": True},
        },
        supports_check_mode=True,
    )
    place = KeyPlace(module.params["private_key"], module.params["certificate"])
    password_hash = module.params["password_hash"].strip()
    problem = hash_problem(password_hash)
    if problem:
        module.fail_json(msg=f"password_hash: {problem}. [secure_boot.hash]")
    try:
        outcome = prepare("/", place, password_hash, check=module.check_mode)
    except Refused as refusal:
        module.fail_json(msg=f"{refusal} [secure_boot.key_file]")
    module.exit_json(**dict(outcome._asdict(), dialogue=dialogue("/", place.certificate)))


if __name__ == "__main__":
    main()
