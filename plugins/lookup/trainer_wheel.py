# SPDX-License-Identifier: Apache-2.0
"""The trainer's wheel on the controller, and the digest of the sources that it is made from."""

from __future__ import annotations

DOCUMENTATION = """
name: trainer_wheel
author: The gpuwright developers (@gpuwright)
version_added: "0.2.0"
short_description: The trainer's wheel on the controller
description:
  - C(digest) is the SHA-256 of the trainer's sources; nothing is built for it.
  - C(path) is the wheel made from them. It is the one that C(make trainer-wheel) left in the role C(model_trainer);
    if there is none, flit_core builds it into the temporary folder of this run, once in a run.
options:
  _terms:
    description: C(digest) or C(path).
    required: true
"""
EXAMPLES = """
- ansible.builtin.copy:
    src: "{{ lookup('gpuwright.node.trainer_wheel', 'path') }}"
    dest: /srv/wheels/
    mode: "0644"
"""
RETURN = """
_raw:
  description: The digest or the path.
  type: list
  elements: str
"""

from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.gpuwright.node.plugins.plugin_utils import trainer_wheel


class LookupModule(LookupBase):
    """`lookup('gpuwright.node.trainer_wheel', 'path')`."""

    def run(self, terms: list, variables: dict | None = None, **kwargs: object) -> list[str]:
        answers = {
            "digest": trainer_wheel.source_digest,
            "path": lambda: str(trainer_wheel.wheel(Path(constants.DEFAULT_LOCAL_TMP) / "trainer-wheel")),
        }
        try:
            return [answers[term]() for term in terms]
        except KeyError as error:
            raise AnsibleLookupError(f"trainer_wheel knows digest and path, not {error}") from None
        except (trainer_wheel.WheelError, OSError) as error:
            raise AnsibleLookupError(str(error)) from None
