# SPDX-License-Identifier: Apache-2.0
"""What the callback gpuwright_summary is made of; Ansible would take a module beside the callback for another one."""
