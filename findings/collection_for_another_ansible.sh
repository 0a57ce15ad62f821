#!/bin/sh
# ansible-core 2.19.14 (PyPI) installs a collection that says it does not support this ansible-core, without a word.
#
# requires_ansible of meta/runtime.yml is not looked at by `ansible-galaxy collection install`; at run time it is one
# line of warning, the run goes on, and it ends with 0. (2.21 refuses at the installation.)
#
# Seen: status 0 of both, the installation says nothing of versions, the run warns and executes the role.
# Why it matters: a bound that is only declared protects nobody; a playbook has to ask for its version itself.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv" && "$work/venv/bin/pip" install --quiet ansible-core==2.19.14 2>"$work/said" || { cat "$work/said" >&2; exit 2; }
cd "$work"
export HOME="$work" PATH="$work/venv/bin:$PATH" ANSIBLE_COLLECTIONS_PATH="$work/installed" ANSIBLE_NOCOLOR=1
ansible-galaxy collection init my.tools --init-path source >/dev/null
printf 'requires_ansible: ">=99.0"\n' >source/my/tools/meta/runtime.yml
mkdir -p source/my/tools/roles/one/tasks
printf -- '- ansible.builtin.debug: {msg: the role ran}\n' >source/my/tools/roles/one/tasks/main.yml
ansible-galaxy collection build source/my/tools --output-path . >/dev/null
printf -- '- hosts: localhost\n  gather_facts: false\n  roles: [my.tools.one]\n' >play.yml
ansible-galaxy collection install --offline my-tools-1.0.0.tar.gz -p installed >install.txt 2>&1 || { cat install.txt >&2; exit 1; }
ansible-playbook play.yml >run.txt 2>&1 || { cat run.txt >&2; exit 1; }
if grep -qi "requires_ansible\|99\.0\|support" install.txt; then cat install.txt >&2; exit 1; fi
grep -q "Collection my.tools does not support Ansible version 2.19.14" run.txt && grep -q "the role ran" run.txt || { cat run.txt >&2; exit 1; }
