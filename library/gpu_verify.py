#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

DOCUMENTATION = r"""
---
module: gpu_verify
short_description: Compare a GPU node with what it should be
version_added: "0.1.0"
description:
  - Reads the node, compares every reading with O(expectations), and returns one verdict and one record for each check.
  - A value that cannot be read is UNKNOWN and never PASS. A check that does not apply is SKIP and says why.
  - A bad verdict does not fail the task; the playbook decides what it means. Wrong parameters fail, and, with O(hold),
    a node that another run holds.
  - Never reports a change. It writes only the record of this reading, and changes no state of the node.
  - C(gpu-doctor) runs the same checks on the node. Run this module as root; otherwise it cannot read everything.
options:
  expectations:
    description:
      - What the node should be - C(schema) (1), C(gpu_count), C(gpu_model) (empty for any), C(plan) (what C(gpu_plan)
        returned), C(venv) (absolute path), C(smoke_device) (cuda or cpu) and C(training_user).
      - Optional are C(host) (C(sockets), C(cpus), C(memory_gib), C(disk_count) and others), C(modules) and C(services)
        (lists of names); what is omitted is not checked. So is C(skip_checks) (check id - reason); these are SKIP, but
        for those that cannot be switched off.
      - By default those that the node has, in C(/etc/gpuwright/expectations.json).
    type: dict
  smoke:
    description:
      - What C(amp_smoke_test) returned. Without it and O(smoke_test), the check of the smoke test is UNKNOWN.
      - Check mode runs no test. Its checks are then SKIP, except for what the last test found wrong.
      - With only the key C(busy), it was not run, since those that it names work on the GPUs; the same.
    type: dict
  smoke_test:
    description: Runs the smoke test first (M(gpuwright.node.amp_smoke_test)), and takes the slowest readings meanwhile,
      those of the cards excepted. Check mode runs no test.
    type: dict
    suboptions:
      python: {description: See there., type: path, required: true}
      launcher: {description: See there., type: path, default: /usr/local/bin/gpu-run}
      user: {description: See there., type: str, required: true}
      device: {description: See there., type: str, choices: [cuda, cpu], required: true}
      steps: {description: See there., type: int, default: 50}
      timeout: {description: See there., type: float, default: 600}
      unit: {description: See there., type: path, default: /etc/systemd/system/train-gan@.service}
      agents: {description: As of C(workload_info); with it no card in use is trained on., type: list, elements: str}
      hours:
        description: Age up to which the last test counts instead of a new one, if it passed and nothing that it depends
          on has changed (docs/parts/smoke-test.md); 0 always tests. The action plugin leaves it only to a whole run of
          C(site.yml) that has nothing to do on the node.
        type: float
        default: 0
      names: {description: Accounts and paths that variables name; by the action plugin., type: list, elements: str}
  report_path:
    description: File that receives the report as JSON, mode 0644, replaced in one step. Its folder must exist.
    type: path
  report_folder:
    description: Folder on the controller in which the action plugin keeps the report as C(HOST.json), mode 0644, and
      the one before it below C(previous). Missing folders are created. Check mode writes nothing there.
    type: path
  verified_path: {description: "File that marks a node that has passed. Its folder must exist.", type: path}
  level:
    description: How much time the checks may take - C(quick) (some seconds, for timers), C(standard) (under a minute),
      C(deep) (minutes, on idle GPUs). A level includes the ones before it.
    type: str
    choices: [quick, standard, deep]
    default: standard
  simulated: {description: "What is simulated on this node, in plain words, for the report.", type: str, default: ""}
  nvidia_smi_timeout: {description: "Seconds that nvidia-smi may take, above 0.", type: float, default: 30}
  stamp:
    description: From what this run, which has worked through every role, was decided (C(inputs), a checksum), and the
      C(names) of accounts and paths that it names. Kept on the node if the verdict is PASS or WARN and nothing has
      changed since the run took the lock, so that the next run need not work through the roles; the action plugin
      fills it in.
    type: dict
  hold:
    description: Name of a variable with the options of M(gpuwright.node.operator_lock), by which this run has the node
      while it is verified, unless it has it already. Without this, or in check mode, no lock is taken.
    type: str
  claim: {description: "Who asks for the lock (M(gpuwright.node.operator_lock)); by the action plugin.", type: dict}
attributes:
  check_mode:
    support: full
    description: Reads and compares as usual, but writes no file.
  diff_mode:
    support: none
    description: Changes nothing, so there is nothing to compare.
author: The gpuwright developers (@gpuwright)
"""

EXAMPLES = r"""
- name: Check the node against its expectations
  gpuwright.node.gpu_verify:
    expectations:
      schema: 1
      gpu_count: 1
      gpu_model: Tesla V100-PCIE-16GB
      plan: "{{ gpu_node_plan }}"
      venv: /opt/gpuwright/venvs/current
      smoke_device: cuda
      training_user: trainer
    smoke_test: {python: /opt/gpuwright/venvs/current/bin/python, user: trainer, device: cuda}
    report_path: /var/lib/gpuwright/report.json
  register: result

- name: End with the verdict
  ansible.builtin.assert: {that: "result.verdict in ['PASS', 'WARN']"}
"""

RETURN = r"""
verdict:
  description: The worst status of the checks - FAIL, then UNKNOWN, WARN, PASS. SKIP does not count.
  returned: success
  type: str
checks:
  description: One record for each check, in the order of the layers.
  returned: where RV(dest) is not
  type: list
  elements: dict
  contains:
    id: {description: Stable name; C(gpu-doctor --explain ID) prints its rule., type: str, sample: driver.version}
    layer: {description: "system, framework or model.", type: str}
    status: {description: "PASS, WARN, FAIL, SKIP or UNKNOWN.", type: str}
    value: {description: What the node has; null if nothing was read., type: raw}
    expected: {description: What it should have; null if that cannot be given as one value., type: raw}
    unit: {description: Of both; empty if they have none., type: str}
    message: {description: "One sentence; for SKIP and UNKNOWN, the reason.", type: str}
    action: {description: What to do; empty for PASS and SKIP., type: str}
    caused_by: {description: Only if this follows from another check - the id of the first cause., type: str}
    waived:
      description: Only if somebody has decided that the finding does not count - C(by) is C(inventory) for a check that
        is switched off (SKIP), C(acknowledgement) for a FAIL that root has accepted (WARN), with the original finding.
      type: dict
    remedy: {description: "What a FAIL asks for: drain, reset, reboot, replace and others; else empty.", type: str}
smoke_seconds: {description: Of the smoke test of O(smoke_test); null if none was run., returned: success, type: float}
tested_at: {description: "When the smoke test began, UTC; null if none is known.", returned: success, type: str}
busy: {description: "Who works on the cards, so that no test was run; empty if nobody.", returned: success, type: str}
dest: {description: The report's file on the controller., returned: with O(report_folder), type: str}
ansible_facts:
  description: The fact C(gpu_node_verdict) - C(verdict), and C(findings), the checks that are FAIL or UNKNOWN. Where
    another run holds the node, what M(gpuwright.node.operator_lock) returns.
  returned: success
  type: dict
report: {description: "What else the report has.", returned: where RV(dest) is not, type: dict}
readings:
  description: Everything that was read; a value that could not be read is a record whose only key is C(unreadable).
  returned: where RV(dest) is not
  type: dict
"""

from typing import Any, Callable, Dict

from ansible_collections.gpuwright.node.plugins.module_utils.doctor.parameters import SPEC, wrong_parameter
from ansible_collections.gpuwright.node.plugins.module_utils.first_record.tested import begin_test, end_test
from ansible_collections.gpuwright.node.plugins.module_utils.operator.lock_and_ledger import holding
from ansible_collections.gpuwright.node.plugins.module_utils.operator.node_module import AnsibleModule
from ansible_collections.gpuwright.node.plugins.module_utils.verdict.expectations import parse_expectations, read_own


def main() -> None:
    module = AnsibleModule(argument_spec=SPEC, supports_check_mode=True, mutually_exclusive=[("smoke", "smoke_test")])
    problem = wrong_parameter(module.params, module.check_mode)
    if problem:
        module.fail_json(msg=problem)
    with holding(module, module.params["claim"]) as before_changes:
        answer = verified(module, before_changes)
    module.exit_json(changed=False, **answer)


def verified(module: AnsibleModule, before_changes: Callable[[Any], None]) -> Dict[str, Any]:
    """What the module answers with, once the report is written."""
    params = module.params
    try:
        wanted = params["expectations"]
        expectations = parse_expectations(read_own() if wanted is None else wanted)
    except ValueError as error:
        module.fail_json(msg=f"{error} [verify.expectations]")
    test = begin_test(None if module.check_mode else params["smoke_test"])
    params["smoke"] = test.known or params["smoke"]
    # Nothing is compiled in a module that was sent, so loading the checks takes a second: only once the training is on.
    from ansible_collections.gpuwright.node.plugins.module_utils.doctor.verification import answer_of, keep, verify
    from ansible_collections.gpuwright.node.plugins.module_utils.first_record.stamp import record_stamp

    before_changes(test.training)
    report, smoke_seconds = verify(params, expectations, module.check_mode, test.training)
    end_test(report, test)
    if not module.check_mode:
        try:
            warning = keep(report, params["report_path"], params["verified_path"])
            warning = warning or record_stamp(params["stamp"], report["verdict"])
        except OSError as error:
            module.fail_json(msg=f"the report cannot be written: {error} [verify.report]")
        if warning:
            module.warn(warning)
    for_file = bool(params["report_folder"]) and not module.check_mode
    told = {"smoke_seconds": smoke_seconds, "tested_at": report["smoke"].get("tested_at"), "busy": test.at_work}
    return dict(answer_of(report, for_file), **told)


if __name__ == "__main__":
    main()
