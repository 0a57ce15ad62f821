"""What becomes of each command of README and of the pages in PAGES when they are tested.

The commands run as the pages have them. A row names its command to be found again, and what may stand for words that a
reader replaces (a card, a name, a folder).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Place(Enum):
    """Where a command is run."""

    CONTROLLER = "in the checkout, by tests/unit/docs/test_readme_commands.py"
    NODE = "on a finished node, by tests/testinfra/test_readme_commands.py"
    FLEET = "in the checkout, beside the running fleet, by tests/testinfra/test_readme_commands.py"
    LANE = "by the test whose file the row names"
    NOT_HERE = "not runnable here, for the row's reason"


@dataclass(frozen=True)
class Row:
    """One command.

    says    patterns that its output must have       put    what stands for words of the page, when it is run
    then    more shell behind it, for what has no output      typed  what is typed into it
    file    of a LANE, with the words that it must have       reason  why it is not run
    administrator  of a page for others: who types it
    """

    command: str
    place: Place
    says: tuple[str, ...] = ()
    put: Mapping[str, str] = field(default_factory=dict)
    before: str = ""
    then: str = ""
    typed: str = ""
    administrator: bool = False
    file: tuple[str, str] = ("", "")
    reason: str = ""

    def text(self, page_command: str) -> str:
        """The page's command with what stands for its words, as a line of shell."""
        for word, value in self.put.items():
            assert word in page_command, (word, page_command)
            page_command = page_command.replace(word, value)
        return self.before + page_command + self.then


CONTROLLER, NODE, FLEET, LANE, NOT_HERE = Place
CONFIG = "tests/molecule/config.yml"
# Eight pictures that need no library.
PICTURE = "{ printf 'P6 48 40 255\\n'; head -c 5760 /dev/urandom; }"
PICTURES = f"mkdir ~/flowers && for n in 1 2 3 4 5 6 7 8; do {PICTURE} > ~/flowers/$n.ppm; done"

README = (
    Row("ansible-playbook site.yml -l gpu_nodes", LANE, file=(CONFIG, "converge: ../../../site.yml")),
    Row(
        "ansible-playbook site.yml -l gpu_nodes --check --diff",
        LANE,
        # Molecule's step of that name adds both words.
        file=(CONFIG, "test_sequence: [destroy, create, syntax, check, converge, idempotence"),
    ),
    Row(
        "make venv && source .venv/bin/activate",
        CONTROLLER,
        (r"/bin/ansible-playbook\n.*core 2\.16\.19",),
        then=" && command -v ansible-playbook && ansible-playbook --version",
    ),
    Row(
        "make demo", NOT_HERE, reason="brings two more hosts up from bare, for minutes; its output is compared instead"
    ),
    Row("make test", NOT_HERE, reason="it is what runs this"),
    Row("scp -r flowers gpu-01:", NOT_HERE, reason="the reader's own copy; the next one finds the pictures in a home"),
    Row(
        "ssh -t gpu-01 'gpu-run -- train-gan data=$HOME/flowers run_dir=$HOME/runs/flowers'",
        NODE,
        (r"data: 8 images in /home/\w+/flowers", r"runs/flowers/samples/step-\d+\.png"),
        {"ssh -t gpu-01 ": "bash -c ", "run_dir": "image_size=32 steps=2 channels=8 batch_size=4 device=cpu run_dir"},
        before=f"cd && {PICTURES} && ",
        then=" && ls runs/flowers/samples/step-*.png && rm -r flowers runs",
    ),
    Row("scp 'gpu-01:runs/flowers/samples/step-*.png' .", NOT_HERE, reason="the command above lists these files"),
)

# In any order.
OPERATE = (
    Row("ansible-playbook site.yml -l gpu_nodes", LANE, file=(CONFIG, "converge: ../../../site.yml")),
    Row(
        "ansible-playbook playbooks/verify.yml", LANE, file=("tests/molecule/verify.yml", "../../playbooks/verify.yml")
    ),
    Row(
        "ansible-playbook playbooks/preflight.yml",
        LANE,
        file=("tests/unit/playbooks/test_any_folder.py", '"playbooks/preflight.yml"'),
    ),
    Row(
        "ansible-playbook playbooks/bundle.yml",
        LANE,
        file=("tests/faults/test_offline_host.py", "playbooks/bundle.yml"),
    ),
    Row("ansible-playbook playbooks/lock.yml", LANE, file=("tests/faults/test_own_package.py", "playbooks/lock.yml")),
    Row("ansible-playbook site.yml --tags report", CONTROLLER, (r"Page: .*/reports/index\.html",)),
    Row(
        'ansible-playbook playbooks/plan.yml -e gpu="Tesla V100-PCIE-16GB"',
        CONTROLLER,
        (
            r"driver +580 proprietary",
            r"CUDA toolkit +cuda-toolkit-12-9",
            r"lock file +py3\.12-torch2\.10\.0-cu128\.txt",
        ),
    ),
    Row(
        "openssl passwd -6",
        CONTROLLER,
        (r"(?m)^\$6\$[./0-9A-Za-z]{1,16}\$[./0-9A-Za-z]{86}$",),
        before="setsid --wait ",
        typed="a long password\na long password\n",
    ),
    Row("make pyz", CONTROLLER, (r"build/gpu-doctor\.pyz: \d+ bytes, version \d",)),
    Row(
        "ansible-playbook playbooks/scan.yml",
        LANE,
        file=("tests/unit/playbooks/test_scan_playbook.py", '"playbooks/scan.yml"'),
    ),
    Row(
        "ansible-playbook playbooks/rollout.yml",
        LANE,
        file=("tests/unit/rollout/rollout_site.py", '"playbooks/rollout.yml"'),
    ),
    Row(
        "ansible-playbook playbooks/upgrade.yml",
        LANE,
        file=("tests/faults/test_upgrade.py", '"playbooks/upgrade.yml"'),
    ),
    Row("ansible-playbook playbooks/patch.yml", LANE, file=("tests/faults/test_upgrade.py", '"playbooks/patch.yml"')),
    Row(
        "ansible-playbook playbooks/sweep.yml",
        LANE,
        file=("tests/schedulers/test_sweep.py", '"playbooks/sweep.yml"'),
    ),
    Row(
        "ansible-playbook playbooks/accept.yml",
        LANE,
        file=("tests/unit/accept/accept_site.py", '"playbooks/accept.yml"'),
    ),
    Row(
        "ansible-playbook playbooks/uninstall.yml -l gpu-07",
        LANE,
        file=("tests/faults/test_uninstall.py", '"playbooks/uninstall.yml"'),
    ),
    Row("make collection", LANE, file=("tests/collection/conftest.py", '[*galaxy, "build", ')),
    Row(
        "pip download --only-binary :all: --python-version 3.11 --require-hashes"
        " -r roles/framework_pytorch/files/locks/py3.11-torch2.10.0-cu128.txt",
        FLEET,
        (r"Successfully downloaded .*\btorch\b",),
        # The wheels of the fleet, in place of 4 GB from PyPI.
        {"py3.11-torch2.10.0-cu128": "py3.11-torch2.13.0-cpu"},
    ),
    Row(
        "gpu-run -- python train.py",
        NODE,
        (r"torch 2\.",),
        before="cd && echo 'import torch; print(\"torch\", torch.__version__)' > train.py && ",
        then="; rm train.py",
    ),
    Row("gpu-run --explain -- true", NODE, (r"setting +value +why", r"CUDA_DEVICE_ORDER +PCI_BUS_ID", r"CPU set")),
    Row("sudo gpu-run --calibrate -- command", NODE, (r"chosen: \w+",), {"command": "/bin/true"}),
    Row("sudo gpu-tune", NODE, (r"(ok|skip) +\w+",)),
    Row("gpu-doctor", NODE, (r"PyTorch +2\.", r": PASS \(\d+ checks", r"root's last check: PASS, \d+ ")),
    Row("gpu-doctor --nagios", NODE, (r"^GPU OK: \d+ checks: .*\| fail=0 unknown=0 ",)),
    Row("gpu-doctor --prom", NODE, (r"(?m)^gpuwright_verdict 0$",)),
    Row("gpu-doctor --gate", NODE, (r"open: verdict PASS of 20\d\d-",)),
    Row(
        "sudo systemctl start train-gan@default",
        NODE,
        (r"\nactive\n",),
        # It would train for days beside all that follows.
        then=" && echo && systemctl is-active train-gan@default && sudo systemctl stop train-gan@default",
    ),
    Row("sudo journalctl -u train-gan@NAME", NODE, (r"Started train-gan@default",), {"NAME": "default"}),
)

# In the order of the page. The reader is in the group, and `flowers` is configured.
TRAIN = (
    Row(
        "ansible-playbook site.yml --tags system_training",
        LANE,
        file=("tests/molecule/el8-alternative/group_vars/gpu_nodes.yml", "system_training_researchers: [daemon]"),
    ),
    Row(
        "ansible-playbook site.yml --tags model",
        LANE,
        file=("tests/molecule/el8-alternative/group_vars/gpu_nodes.yml", "model_trainer_configs:"),
    ),
    Row(
        "mkdir /srv/gan/data/flowers", NODE, (r"drwxr-sr-x \S+ \S+ trainer ",), then=" && ls -ld /srv/gan/data/flowers"
    ),
    Row("cp -r ~/flowers/. /srv/gan/data/flowers/", NODE),
    Row("chmod -R g+rX /srv/gan/data/flowers", NODE),
    Row("/opt/gpuwright/venvs/current/bin/train-gan --dry-run", NODE, (r"image_size: 64", r"steps: ")),
    Row(
        "gpu-run -- train-gan --config /etc/gpuwright/train-gan/flowers.yml run_dir=$HOME/runs/flowers",
        NODE,
        (
            r"data: 8 images in /srv/gan/data/flowers \(8 ppm\)",
            r"step 2/2 +d_loss",
            r"Results in /\S+/runs/flowers: pictures",
        ),
    ),
    Row("sudo systemctl start train-gan@flowers", NODE, administrator=True),
    Row(
        "sudo journalctl -u train-gan@flowers -f",
        NODE,
        (
            r"train-gan: data: 8 images in /srv/gan/data/flowers \(8 ppm\)",
            r"train-gan: results go to /srv/gan/runs/flowers",
        ),
        # What follows a journal does not end by itself.
        {" -f": " --no-pager"},
        before="while systemctl is-active -q train-gan@flowers; do sleep 1; done; ",
        administrator=True,
    ),
    Row("sudo systemctl stop train-gan@flowers", NODE, administrator=True),
    Row(
        "cd /srv/gan/runs/flowers",
        NODE,
        (r"samples/step-\d+\.png", r"stats\.jsonl"),
        then=" && ls samples/* *.jsonl *.pt",
    ),
    Row(
        "gpu-run -- tensorboard --logdir /srv/gan/runs/flowers",
        NODE,
        (r"\b2\.\d+",),
        # It serves a page until it is stopped.
        {"--logdir /srv/gan/runs/flowers": "--version"},
    ),
    Row(
        "/opt/gpuwright/venvs/current/bin/train-gan sample --config config.yml --seeds 0-63 --output ~/flowers.png",
        NODE,
        (r"4 images of step 2 in \S+/flowers\.png",),
        {"0-63": "0-3"},
        before="cd /srv/gan/runs/flowers && ",
    ),
    Row(
        "/opt/gpuwright/venvs/current/bin/train-gan export --config config.yml --output ~/flowers-network",
        NODE,
        (r"torchscript +0 ",),
        before="cd /srv/gan/runs/flowers && ",
    ),
    Row("sudo gpu-doctor --gate", NODE, (r"open: verdict PASS",), administrator=True),
)
PAGES = {"README.md": README, "docs/operate.md": OPERATE, "docs/train-your-images.md": TRAIN}
