#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
---
module: nvidia_smi_info
short_description: Ask nvidia-smi about its GPUs under a deadline
version_added: "0.1.0"
description:
  - Runs C(nvidia-smi -q -x) and returns its output, for drivers 418 to 620, as typed values with units.
  - Returns in time even if nvidia-smi hangs in the driver and cannot be killed.
  - Reports and does not judge. A driver that is not loaded, or a program that is not installed, is a result and does
    not fail the task; see RV(status).
  - A value that cannot be read is the string C(unknown). One that the card does not have is null.
options:
  timeout:
    description: Seconds that nvidia-smi may take to answer, above 0.
    type: float
    default: 30
  executable:
    description: Name in PATH, or full path, of nvidia-smi.
    type: str
    default: nvidia-smi
  fields:
    description: Additional fields of C(nvidia-smi --query-gpu) to read, such as C(clocks.sm); see RV(fields).
    type: list
    elements: str
    default: []
extends_documentation_fragment: [gpuwright.node.read_only]
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Ask the driver
  gpuwright.node.nvidia_smi_info:
    timeout: 60
  register: answer

- name: Stop unless it answered
  ansible.builtin.assert:
    that: answer.status == 'ok'
    fail_msg: "{{ answer.message }}. Next: {{ answer.action }}"
"""

RETURN = r"""
reachable:
  description: Whether the driver answered and the answer could be read.
  returned: always
  type: bool
rc:
  description: Exit status of nvidia-smi, negative for a signal; null if it was not started or did not finish.
  returned: always
  type: int
status:
  description: One of ok, not_installed, driver_not_loaded, version_mismatch, no_devices, gpu_lost, reset_required,
    timeout, unreadable and failed.
  returned: always
  type: str
message:
  description: What happened, in one sentence, with nvidia-smi's own words.
  returned: always
  type: str
action:
  description: What to type next; empty if the status is ok.
  returned: always
  type: str
driver_version:
  description: Version of the loaded driver.
  returned: always
  type: str
  sample: "580.95.05"
cuda_version:
  description: Newest CUDA version that this driver can run.
  returned: always
  type: str
  sample: "13.0"
gpus:
  description: One record per GPU; empty if RV(reachable) is false.
  returned: always
  type: list
  elements: dict
  contains:
    uuid:
      description: UUID.
      type: str
    serial:
      description: Serial number of the board.
      type: str
    name:
      description: Product name.
      type: str
      sample: Tesla V100-PCIE-16GB
    pci_id:
      description: PCI address as sysfs writes it.
      type: str
      sample: "0000:3b:00.0"
    device_id:
      description: PCI id of the card without its vendor, four digits.
      type: str
      sample: "1db4"
    architecture:
      description: kepler to blackwell, in lower case.
      type: str
    memory_total_mib:
      description: Memory of the GPU in MiB.
      type: int
    memory_used_mib:
      description: Memory in use in MiB.
      type: int
    temperature_c:
      description: Temperature in degrees Celsius.
      type: int
    power_draw_w:
      description: Power draw now, in watts.
      type: float
    power_limit_w:
      description: Power limit in force, in watts.
      type: float
    persistence_mode:
      description: Enabled or Disabled.
      type: str
    ecc_mode:
      description: Enabled or Disabled.
      type: str
    mig_mode:
      description: Enabled or Disabled.
      type: str
    lost:
      description: Whether one value of this card is "GPU is lost"; RV(status) is then gpu_lost, and the records of the
        other cards are still valid.
      type: bool
    health:
      description:
        - Firmware, InfoROM, modes, memory errors, retired pages and remapped rows, spare rows, pending repairs, heat
          and power limits, PCIe lanes and generations, BAR1, fabric and each field of its health.
      type: dict
    ecc_uncorrected_volatile:
      description: Uncorrectable memory errors since the driver was loaded.
      type: int
    retired_pages_pending:
      description: Whether a memory page is waiting to be retired at the next reset (Turing and older).
      type: bool
    remapped_rows_pending:
      description: Whether a memory row is waiting to be remapped at the next reset (Ampere and newer).
      type: bool
    remapped_rows_failure:
      description: Whether remapping a row has failed (Ampere and newer).
      type: bool
    recovery_action:
      description: What the driver asks for, such as none or gpu reset; null if it is too old to report this.
      type: str
    throttle_reasons:
      description: Reasons that are holding the clocks down now, such as hw_thermal_slowdown; gpu_idle is harmless.
      type: list
      elements: str
    processes:
      description: Programs on the GPU with pid, type (C compute, G graphics), name and used_memory_mib.
      type: list
      elements: dict
fields:
  description: For each GPU its pci_id, name and values (field to typed value). Empty if no fields were asked for.
  returned: always
  type: list
  elements: dict
fields_problem:
  description: Why RV(fields) could not be read, and what to do next.
  returned: always
  type: str
warnings:
  description: Warnings that nvidia-smi wrote in addition to its answer.
  returned: always
  type: list
  elements: str
"""

from ansible_collections.gpuwright.node.plugins.module_utils.gpu.nvidia_smi.ask import ask
from ansible_collections.gpuwright.node.plugins.module_utils.gpu.nvidia_smi.query import DEFAULT_TIMEOUT_SECONDS
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule


def main() -> None:
    """Ask and return the answer, whatever it is."""
    module = AnsibleModule(
        argument_spec={
            "timeout": {"type": "float", "default": DEFAULT_TIMEOUT_SECONDS},
            "executable": {"type": "str", "default": "nvidia-smi"},
            "fields": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    try:
        answer = ask(**module.params)
    except ValueError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()
