# SPDX-License-Identifier: Apache-2.0
"""What the documentation of every module that only reads says of Ansible's modes."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = """
attributes:
  check_mode:
    support: full
    description: Reads in check mode as always.
  diff_mode:
    support: none
    description: Changes nothing, so there is nothing to compare.
"""
