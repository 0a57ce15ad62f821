# make help lists everything. Nothing has to be installed first but make, Python 3.10 to 3.12 and a shell.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
# The first Python that ansible-core 2.16 runs on; a name in PATH may be a shim that refuses, so each is tried. A
# distribution's own comes first, if it has what makes an environment: it is compiled for speed, unlike pyenv's, and the
# tests take a quarter less processor time with it.
VERSIONS := python3.12 python3.11 python3.10 python3
PYTHON := $(firstword $(foreach p,$(VERSIONS:%=/usr/bin/%) $(VERSIONS),$(shell $(p) -c \
  '$(if $(filter /%,$(p)),import ensurepip; )import sys; (3, 10) <= sys.version_info[:2] <= (3, 12) or sys.exit(1)' \
  >/dev/null 2>&1 && echo $(p))))
FLEET_TOOL := $(VENV)/bin/python tests/fleet/fleet
RUN := $(VENV)/bin/python tests/run.py
# Saved answers of nvidia-smi, kernel logs and bundles of real nodes; those here are made up.
CORPUS ?= tests/unit/data
# Molecule and Ansible look for their programs in PATH.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

.PHONY: help interruptions collection pyz test-collection test-sanity demo demo-down test test-corpus test-deep lint \
  unit trainer trainer-long tensorflow digits molecule hardened el9 el10 debian13 ubuntu documented mixed page deep guards findings archives plays-fleet plays-node test-turn test-all \
  faults interrupt interrupt-all test-world test-fleet test-archives test-container test-real test-systems test-vm \
  test-numa test-blank-disk bench-runtime bench-converge bench-plan bench-plan-truth bench-page bench-trainer gpu-bench \
  trainer-wheel fleet-up fleet-down venv packages docs picture checks-tried lock matrix-check matrix-refresh clean \
  gpu-evidence test-cores core-2.16 core-2.17 core-2.18 core-2.19 core-2.20 core-2.21

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: venv packages ## two simulated GPU servers, from bare to verified, in containers on this machine
	@tests/fleet/demo

demo-down: venv ## stop the demo and remove its containers
	@$(FLEET_TOOL) down --fleet demo

test: venv ## lint, unit, trainer, one whole node by Molecule with testinfra, the collection (FLEET=off leaves the containers out)
	@$(RUN) all

test-turn: venv ## the parts of the slower tests that the commit chooses (tests/parts.py); .ci/run runs them after `make test`
	@$(RUN) turn

test-all: venv ## everything, one kind after the other, for hours; goes on where the last call ended on this commit
	@$(RUN) everything

test-deep: venv deep page ## mutation of the checks and of every field of nvidia-smi, 100,000 damaged inputs, the page in a real browser

deep: venv ## mutation of the checks and of every field of nvidia-smi, 100,000 damaged inputs, a plan for every card
	@$(RUN) deep

guards: venv ## takes each guard of docs/security.md out of a copy of the project; the test that is named for it has to fail (2 minutes)
	@$(RUN) guards

page: venv ## the fleet's page in a real browser (needs chromium, npm, poppler-utils)
	@$(RUN) page

test-corpus: ## judge saved answers of nvidia-smi, kernel logs and bundles: make test-corpus CORPUS=folder
	@PYTHONPATH=tests/node_library $(or $(PYTHON),python3) -B -c 'import sys; from gpuwright.doctor.program import main; sys.exit(main())' \
	  --replay '$(CORPUS)' || [ $$? -ne 2 ]

lint: venv ## ansible-lint, yamllint, ruff, vermin, mypy, and the schemas of GitHub's files
	@$(RUN) lint

unit: venv ## modules, plan, filters, tools; also under a real Python 3.6 if there is one
	@$(RUN) unit

trainer: venv ## the GAN trainer on the CPU, without what takes long
	@$(RUN) trainer

trainer-long: venv ## what of the trainer's tests compiles, traces or trains for long
	@$(RUN) trainer-long

tensorflow: venv ## the check of TensorFlow on a real one, and Debian 12 with TensorFlow from bare to verified, which uses it (1.2 GB of wheels at first)
	@$(RUN) tensorflow

digits: venv ## slower: the default model on 1,797 digits: what its averaged generator is worth as it is drawn (DIGITS_SEEDS=1,2,3)
	@$(RUN) digits

molecule: venv ## a whole node of EL 8 with testinfra, from bare to verified
	@$(RUN) molecule

hardened: venv ## the same with every variable changed, on a hardened host
	@$(RUN) hardened

plays-fleet: venv ## unit tests that run whole playbooks over several hosts: rollouts, drains, the words of a run
	@$(RUN) plays-fleet

plays-node: venv ## unit tests that run plays and programs of one host: repositories, environments, locks, gates
	@$(RUN) plays-node

el9: venv ## EL 9 from bare to verified and once more
	@$(RUN) el9

el10: venv ## the same for EL 10 (3 GB of wheels at first)
	@$(RUN) el10

debian13: venv ## the same for Debian 13 (3 GB of wheels at first)
	@$(RUN) debian13

ubuntu: venv ## the same for Ubuntu 24.04 (3 GB of wheels at first)
	@$(RUN) ubuntu

documented: venv ## RHEL 8.8 with a V100 and the profile `documented` (3 GB of wheels at first)
	@$(RUN) documented

mixed: venv ## EL 8 and 9, Debian 12 and 13, Ubuntu 22.04 and 24.04 in one run, four of them with a history (12 GB of wheels at first)
	@$(RUN) mixed

collection: venv trainer-wheel ## build/gpuwright-node-VERSION.tar.gz, to be installed by ansible-galaxy (docs/collection.md)
	@$(VENV)/bin/ansible-galaxy collection build --force --output-path build

pyz: venv ## build/gpu-doctor.pyz, the one file that scans any Linux machine (docs/scan.md)
	@$(VENV)/bin/python tools/doctor_pyz.py

test-collection: venv ## the installed collection, used from a separate folder, on a host of the fleet
	@$(RUN) collection

test-sanity: venv ## what ansible-test and galaxy-importer require of a collection (2 minutes; PyPI)
	@$(VENV)/bin/python tests/sanity/run.py

findings: ## whether the surprises of findings/ about other people's software still hold; no CI (minutes, 1 GB)
	@failed=0; for file in findings/*.sh; do \
	  status=0; sh "$$file" || status=$$?; \
	  case $$status in 0) words="holds" ;; 2) words="COULD NOT BE TRIED" ;; *) words="NO LONGER HOLDS" ;; esac; \
	  echo "$$file: $$words"; [ $$status -eq 0 ] || failed=1; \
	done; exit $$failed

faults: venv ## slower: broken repositories, keys, locks, kernels, drivers; what the toolkit says and leaves behind
	@$(RUN) faults

interruptions: venv ## three runs that are interrupted at points that the commit chooses, and repaired by a rerun
	@$(RUN) interruptions

interrupt: venv packages ## interrupt one command at one point and compare: make interrupt POINT="driver: in the DKMS build" FAULT="Ctrl-C" SEED=1
	@$(VENV)/bin/python tests/faults/interrupt $(if $(POINT),--point "$(POINT)") $(if $(FAULT),--fault "$(FAULT)") $(if $(SEED),--seed $(SEED))

interrupt-all: venv packages ## slower, for a release: every fault at every long step, an hour a call; goes on where the last call on this commit ended (docs/faults.md)
	@$(VENV)/bin/python tests/faults/interrupt --record --minutes 55
	@$(VENV)/bin/python tools/faults.py

test-world: venv ## slower: the main job under difficult but normal conditions (umask, sudo, proxy, mirror, IPv6, clock ...), each listed with what was seen
	@$(RUN) world

test-cores: venv ## slower: every ansible-core that is claimed, on hosts of EL 9 and Debian 12; 10 minutes each (CORE=2.19 or make core-2.19: one)
	@$(RUN) cores

core-2.16 core-2.17 core-2.18 core-2.19 core-2.20 core-2.21: venv
	@$(RUN) $@

test-real: venv ## slower: Debian 12 with NVIDIA's real packages from Debian's archive (2.5 GB), and from NVIDIA's repository
	@$(RUN) real

test-systems: venv ## slower: stand-ins of EL 9 (beside EL 8), EL 10 and Debian 13, from bare to verified, each run twice (6 GB of wheels)
	@$(RUN) systems

bench-plan: venv ## how long the plan takes to answer, and what it costs a run (5 minutes; writes docs/benchmarks)
	@$(VENV)/bin/python tests/bench/plan_time.py
	@$(VENV)/bin/python tests/bench/plan_on_controller.py

bench-plan-truth: venv ## what tools answer in 42 real situations, beside a key with sources (UV=program, NVIDIA_DETECT=script of Debian's package; writes docs/benchmarks)
	@$(VENV)/bin/python tests/bench/plan_truth.py

bench-page: venv ## pages of 1,000 made-up hosts: size, and first paint in a real browser (needs chromium; writes docs/benchmarks)
	@$(VENV)/bin/python tests/bench/page_speed.py

bench-trainer: venv ## the trainer's speed on a CPU, beside others in the same run (about 4 minutes; writes docs/benchmarks)
	@$(VENV)/bin/python tests/bench/trainer/run bench_trainer.py

gpu-bench: venv ## the same on a GPU, under GPU_PYTHON, by default the interpreter of this node's environment
	@$(VENV)/bin/python tests/bench/trainer/run gpu_bench.py

archives: test-archives ## the same as test-archives

test-archives: venv ## whether apt would install all that is planned for Debian, from its archives as they are today (no root; what did not answer is said)
	@$(RUN) archives
# For example GPU_PYTHON=/opt/torch/bin/python EVIDENCE="--minutes 9 --out /tmp/evidence". It needs no environment of its own.
gpu-evidence: ## on a machine with a GPU: all that is promised about one, measured in at most 9 minutes under GPU_PYTHON (tests/gpu/README.md)
	@$(or $(PYTHON),python3) tests/gpu/evidence $(EVIDENCE)

test-container: venv ## slower: the trainer's image built from its Containerfile, on a base made here, and trained with
	@$(RUN) container

test-fleet: venv ## slower: a real Slurm in containers: drains, returns, the breaker; then four servers: a rolling driver, lost nodes, an acceptance, sweeps
	@$(RUN) schedulers

test-vm: venv ## slower: Debian 12 in a virtual machine: boot loader, real reboot, newer kernel, DKMS, boot check (qemu)
	@$(RUN) vm

test-numa: venv ## slower: gpu-run on a kernel with two NUMA nodes, in a virtual machine: full nodes, policies, far memory (qemu)
	@$(RUN) numa

test-blank-disk: venv ## slower: an empty disk, Debian's installer with a preseed, site.yml, in a virtual machine (qemu); the driver in an image
	@$(RUN) blank-disk

fleet-up: venv packages ## start the demo's hosts without touching them
	@$(FLEET_TOOL) build
	@$(FLEET_TOOL) up --fleet demo

fleet-down: demo-down ## the same as demo-down

trainer-wheel: venv ## the trainer's wheel, for a controller that cannot build it, or for a collection to pass on
	@$(VENV)/bin/python tools/trainer_wheel.py

venv: $(VENV)/.complete ## the controller's Python environment, from hashes

$(VENV)/.complete: requirements/dev.lock requirements/dev-source.lock
	@test -n "$(PYTHON)" || { echo "gpuwright needs Python 3.10, 3.11 or 3.12 on this machine; none was found in PATH. Install one (RHEL 8 and 9: dnf install python3.11), or name one: make venv PYTHON=/path/to/python3.11"; exit 3; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || tests/fleet/install-packages
	@echo "Python environment in $(VENV) (ansible-core 2.16.19 and the test tools, every hash checked) ..."
	@rm -rf $(VENV) && $(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --require-hashes --only-binary :all: --requirement requirements/dev.lock
	@$(VENV)/bin/pip install --quiet --quiet --require-hashes --no-binary :all: --no-build-isolation --no-deps --requirement requirements/dev-source.lock
	@touch $@

packages: ## what the containers need from the system's package manager
	@tests/fleet/install-packages

# For example BENCH="--rounds 5 --churn-seconds 60 --vs numactl".
bench-runtime: venv ## gpu-run beside numactl, run_cpu and torchrun; about an hour, mostly allocation churn
	@PYTHONPATH=tests/node_library:tests $(VENV)/bin/python tests/bench/runtime/bench.py $(BENCH)

# For example BENCH="--rounds 3 --hosts 1,10 --endpoints none".
bench-converge: venv packages ## what a run costs, beside a bare script and a stock role; 100 ssh endpoints (40 minutes and more; writes docs/benchmarks)
	@PYTHONPATH=tests/node_library:tests:tests/bench/runtime $(VENV)/bin/python tests/bench/converge/bench_converge.py $(BENCH)

docs: venv ## write the pages, tables and pictures that are made from code and data: docs/compatibility.md, docs/checks.md and the others
	@$(VENV)/bin/python tools/device_table.py
	@$(VENV)/bin/python tools/architecture.py
	@$(VENV)/bin/python tools/compatibility.py
	@$(VENV)/bin/python tools/tuning.py
	@$(VENV)/bin/python tools/conda.py
	@$(VENV)/bin/python tools/nvidia_smi_fields.py
	@$(VENV)/bin/python tools/checks.py
	@$(VENV)/bin/python tools/roles.py
	@$(VENV)/bin/python tools/faults.py
	@$(VENV)/bin/python tools/gpu_page.py

picture: venv ## photograph the page of a made-up fleet for README (needs chromium; writes docs/images/page.png)
	@$(VENV)/bin/python tests/page/picture.py

checks-tried: venv ## count which broken fields of nvidia-smi's answers are noticed, for docs/checks.md (2 to 8 minutes)
	@$(VENV)/bin/python tools/checks_tried.py

# For example PACKAGES="lpips==0.1.4 wheels/my_gan-0.1.0-py3-none-any.whl", from the inventory's folder.
lock: venv ## write requirements/*.lock and the environments' lock files again, or that of one plan: make lock PLAN=plan.json (needs uv); with PACKAGES="name ..." also one for these packages
ifndef PLAN
	uv pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-annotate --no-header --quiet requirements/dev.in --output-file requirements/dev.lock
	uv pip compile --universal --python-version 3.10 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-annotate --no-header --quiet --constraint requirements/dev.lock requirements/controller.in \
	  --output-file requirements/controller.lock
endif
	$(VENV)/bin/python tools/environments.py $(if $(PLAN),--plan '$(PLAN)') $(if $(PACKAGES),--missing)
ifdef PACKAGES
	$(VENV)/bin/ansible-playbook playbooks/lock.yml $(if $(PLAN),-e 'plan=$(abspath $(PLAN))') -e "$$($(VENV)/bin/python -c \
	  'import json, sys; print(json.dumps({"framework_pytorch_packages": sys.argv[1:]}))' $(PACKAGES))"
endif

matrix-check: venv ## compare the matrix with the wheels on the index that pip is configured for: their CUDA, cuDNN, which pairs resolve, and every lock file
	@$(VENV)/bin/python tools/matrix_check.py

matrix-refresh: venv ## releases since the matrix was written, and proposed rows for them to check; WRITE=true adds them, marked as not verified; KNOWLEDGE=folder writes newer tables for preflight_knowledge
	@$(VENV)/bin/python tools/matrix_refresh.py $(if $(filter true,$(WRITE)),--write) $(if $(KNOWLEDGE),--knowledge '$(KNOWLEDGE)')

clean: ## remove what was built here (not the image cache)
	rm -rf $(VENV) .fleet reports .pytest_cache .ruff_cache .mypy_cache
