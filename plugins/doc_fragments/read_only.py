# SPDX-License-Identifier: Apache-2.0
"""What the documentation of every read-only module says about Ansible's modes."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = """
attributes:
  check_mode:
    support: full
    description: Reads in check mode as usual.
  diff_mode:
    support: none
    description: Changes nothing, so there is nothing to compare.
"""
