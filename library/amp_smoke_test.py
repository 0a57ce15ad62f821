#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
---
module: amp_smoke_test
short_description: Train a small GAN in full and in mixed precision on every GPU
version_added: "0.1.0"
description:
  - Runs the trainer's smoke test in the node's environment through the launcher, as an ordinary user, in the sandbox of
    the training service. The sandbox is that service's settings, read from its installed file.
  - Without such a file, without systemd or without root, it only runs as that user, with nothing from root's
    environment; RV(smoke.sandbox) is then null, RV(smoke.sandbox_because) says why, and C(gpu_verify) warns about it.
  - Fails if a GPU was demanded and the training ran elsewhere, if no training step was applied, if a loss was not
    finite or did not fall, if parameters did not change, and if the test gave no report in time.
  - On several GPUs, a training run over all of them follows; its gradients and parameters must be equal on all of them.
  - At the deadline, its whole process group is killed; it does not wait for a process that cannot be killed.
  - Never reports a change. The test writes into a temporary home folder, which is removed.
options:
  python:
    description: Full path of the Python in which torch and gan_trainer are installed.
    type: path
    required: true
  launcher:
    description: Full path of gpu-run.
    type: path
    default: /usr/local/bin/gpu-run
  user:
    description: User to run as; any user other than the current one needs root.
    type: str
    required: true
  device:
    description: Where the training must run, on every visible GPU or on the CPU. On a CPU, it tests the software
      and says nothing about speed.
    type: str
    choices: [cuda, cpu]
    required: true
  steps:
    description: Training steps in each precision, 10 to 100000.
    type: int
    default: 50
  timeout:
    description: Seconds for the whole test, above 0.
    type: float
    default: 600
  unit:
    description: Unit file of the service in whose sandbox it runs; empty for none.
    type: path
    default: /etc/systemd/system/train-gan@.service
attributes:
  check_mode:
    support: full
    description: Skipped, since the test would put load on the GPUs.
  diff_mode:
    support: none
    description: Changes nothing, so there is nothing to compare.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Train 100 steps on every GPU
  gpuwright.node.amp_smoke_test:
    python: /opt/gpuwright/venvs/current/bin/python
    user: trainer
    device: cuda
    steps: 100
  register: smoke_result

- name: Show what mixed precision gains on the first GPU
  ansible.builtin.debug:
    msg: "{{ smoke_result.smoke.devices[0].amp_dtype }}: {{ smoke_result.smoke.devices[0].speed_ratio }} times"
"""

RETURN = r"""
smoke:
  description: The test's record; null if it gave none.
  returned: unless skipped
  type: dict
  contains:
    schema:
      description: Version of this record, 1.
      type: int
    torch:
      description: Version of torch; null if it cannot be imported.
      type: str
    cuda:
      description: CUDA version that torch was built for; null for a CPU build.
      type: str
    device:
      description: Where it had to run, cuda or cpu.
      type: str
    steps:
      description: Training steps that were asked for in each precision.
      type: int
    devices:
      description: One record per GPU, or one for the CPU.
      type: list
      elements: dict
      contains:
        device:
          description: Where it ran, for example cuda:0.
          type: str
        name:
          description: Name of the GPU.
          type: str
        amp_dtype:
          description: Number format of the mixed-precision training.
          type: str
        amp_dtype_because:
          description: Why this format.
          type: str
        fp32:
          description: The training in float32; null if it failed. Steps applied and skipped, first and last loss,
            whether all parameters changed, peak memory in MiB and seconds.
          type: dict
        amp:
          description: The training in mixed precision.
          type: dict
        speed:
          description: Images per second and peak memory in both precisions, on a network large enough to keep a GPU
            busy; null on a CPU.
          type: dict
        speed_ratio:
          description: Images per second in mixed precision divided by those in float32, on that network; null on a CPU.
          type: float
    parallel:
      description: The training over all GPUs at once, or over two processes on a CPU; null if there is one GPU.
      type: dict
    sandbox:
      description: Name of the service in whose sandbox it ran; null if it ran without one.
      type: str
    sandbox_because:
      description: How many of the service's settings applied, or why there was no sandbox.
      type: str
    problems:
      description: What is wrong, one sentence each.
      type: list
      elements: str
command:
  description: The command that was run.
  returned: unless skipped
  type: list
  elements: str
seconds:
  description: How long the test took.
  returned: unless skipped
  type: float
  sample: 8.2
code:
  description: Why it could not be run, for programs, such as C(no-user), C(timeout) or C(no-trainer).
  returned: failure
  type: str
msg:
  description: Host, fault, next step and the last 20 lines of stderr.
  returned: failure
  type: str
"""

from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.training.smoke import OPTIONS, run_smoke, wrong_option


def main() -> None:
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    if module.check_mode:
        module.exit_json(changed=False, skipped=True, msg="the smoke test trains on the GPUs, so check mode skips it")
    problem = wrong_option(module.params)
    if problem:
        module.fail_json(msg=problem)
    result = run_smoke(module.params)
    if result.pop("failed", False):
        message = result.pop("msg")
        module.fail_json(msg=message, changed=False, **result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
