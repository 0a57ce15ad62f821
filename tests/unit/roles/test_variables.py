"""Variables of a host against argument specs: what is wrong is said in one line each, and secrets never are."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible.parsing.yaml.objects import AnsibleUnicode, AnsibleVaultEncryptedUnicode
from ansible.template import AnsibleUndefined
from ansible.utils.unsafe_proxy import wrap_var
from ansible_collections.gpuwright.node.plugins.filter import variables as plugin
from ansible_collections.gpuwright.node.plugins.plugin_utils.layers import CHECKED
from ansible_collections.gpuwright.node.plugins.plugin_utils.variables.rules import variable_problems

REPOSITORY = Path(__file__).resolve().parents[3]

TEXT = {"type": "str", "default": ""}
A_REASON = 'must say for each check why, such as {gpu.link_width: "riser with 8 lanes"}'
SPECS: dict[str, dict[str, dict[str, Any]]] = {
    "system_driver": {
        "system_driver_branch": TEXT,
        "system_driver_version": {**TEXT, "description": "Exact version."},
        "system_driver_flavour": {**TEXT, "choices": ["", "proprietary", "open"]},
        "system_reboot_policy": {"type": "str", "choices": ["auto", "allowed", "never"], "default": "auto"},
        "system_reboot_timeout": {"type": "int", "default": 900},
        "system_driver_version_lock": {"type": "bool", "default": False},
        "system_driver_repository_url": {"type": "str", "default": "https://host/"},
        "system_driver_key_fingerprint": {"type": "str", "default": "0" * 40},
    },
    "framework_pytorch": {
        "framework_pytorch_python": TEXT,
        "framework_pytorch_index_url": TEXT,
        "framework_pytorch_index_password": TEXT,
        "framework_pytorch_api_token": {"type": "int"},
        "framework_pytorch_netrc": {"type": "int", "no_log": True},
        "framework_pytorch_lock_file": {"type": "path"},
        "framework_pytorch_keep": {"type": "int", "required": True},
    },
    "model_trainer": {
        "model_trainer_gpu_count": {"type": "int"},
        "model_trainer_total_steps": {"type": "float"},
        "model_trainer_configs": {"type": "dict", "default": {}},
        "model_trainer_jobs": {"type": "dict", "default": {}},
        "model_trainer_runs_dir": {"type": "str", "default": "/srv/gan/runs"},
        "model_trainer_paths": {"type": "list", "elements": "int"},
        "model_trainer_logging": {"type": "dict", "options": {"level": {"type": "str", "choices": ["info", "debug"]}}},
    },
}


def problems(**variables: Any) -> list[str]:
    return sentences(variable_problems(variables, SPECS))


def sentences(lines: list[str]) -> list[str]:
    """What is said before the id with which each line ends."""
    ids = [line.rpartition(" [variable.")[2] for line in lines]
    assert set(ids) <= {"value]", "unknown]", "internal]", "renamed]"}, lines
    return [line.rpartition(" [")[0] for line in lines]


AN_ADDRESS = (
    ": must be an address such as https://host/path/ (a login in it with %2F for /, %3F for ?, %23 for #) (given: {})"
)
QUOTES = ": must be text: write it in quotes: YAML turns 8.10 into 8.1 (given: {})"
DIGITS = ": must be a fingerprint of 40 hex digits without spaces (given: {})"
A_UNIT_PATH = ": must be an absolute path without white space, quotes, % and backslashes (given: {})"
A_VERSION = ': must be a version such as "580.95.05" (given: {})'
A_BRANCH = ': must be a branch such as "580", or a version such as "580.95.05" (given: {})'
UNDEFINED = " uses a variable that is not defined"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("system_driver_brnach", "unknown variable system_driver_brnach, did you mean system_driver_branch?"),
        ("system_reboot_timout", "unknown variable system_reboot_timout, did you mean system_reboot_timeout?"),
        (
            "system_driver_reboot",
            "system_driver_reboot is called system_reboot_policy now; rename it in the inventory",
        ),
        (
            "framework_pytroch_python",
            "unknown variable framework_pytroch_python, did you mean framework_pytorch_python?",
        ),
        ("system_driver_qqqqqq", "unknown variable system_driver_qqqqqq"),
        ("__system_driver_probe", "__system_driver_probe is internal to the role system_driver and cannot be set"),
    ],
)
def test_a_name_that_is_none_of_ours(name: str, expected: str) -> None:
    assert problems(**{name: "580"}) == [expected]


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        # -- kinds
        ("system_driver_branch", 580, ": must be text: write it in quotes (given: 580)"),
        ("system_driver_version", 550.9, QUOTES.format(550.9)),
        ("framework_pytorch_python", 3.1, QUOTES.format(3.1)),
        ("system_driver_branch", True, ": must be text: write it in quotes (given: True)"),
        ("system_reboot_policy", True, ": must be one of auto, allowed, never, as text in quotes (given: True)"),
        ("system_driver_branch", ["580"], ": must be text (given: ['580'])"),
        ("system_driver_branch", None, ' has no value: write "" for none, or remove the line'),
        ("system_reboot_timeout", "soon", ": must be a whole number (given: 'soon')"),
        ("system_reboot_timeout", True, ": must be a number (given: True)"),
        ("system_driver_version_lock", "perhaps", ": must be true or false (given: 'perhaps')"),
        (
            "model_trainer_configs",
            "faces",
            ": must be names with their settings, such as {faces: {image_size: 128}} (given: 'faces')",
        ),
        # -- choices
        ("system_reboot_policy", "maybe", ": must be one of auto, allowed, never (given: 'maybe')"),
        ("system_driver_flavour", "closed", ": must be one of \"\", proprietary, open (given: 'closed')"),
        # -- what a name promises
        ("system_driver_branch", "open-dkms", A_BRANCH.format("'open-dkms'")),
        ("system_driver_version", "580.", A_VERSION.format("'580.'")),
        ("system_driver_version", "580.95\n", A_VERSION.format("'580.95\\n'")),
        ("system_driver_key_fingerprint", "610C 7B14", DIGITS.format("'610C 7B14'")),
        ("system_driver_key_fingerprint", "", DIGITS.format("''")),
        ("model_trainer_runs_dir", "runs", A_UNIT_PATH.format("'runs'")),
        ("model_trainer_runs_dir", "/srv/my runs", A_UNIT_PATH.format("'/srv/my runs'")),
        ("model_trainer_runs_dir", "/srv/100%", A_UNIT_PATH.format("'/srv/100%'")),
        ("system_driver_repository_url", "host", AN_ADDRESS.format("'host'")),
        ("system_reboot_timeout", 0, ": must be greater than 0 (given: 0)"),
        ("model_trainer_gpu_count", -3, ": must be 0 or more (given: -3)"),
        ("model_trainer_gpu_count", "-3", ": must be 0 or more (given: '-3')"),
        ("model_trainer_total_steps", -0.5, ": must be greater than 0 (given: -0.5)"),
        # -- values that are not there
        ("system_driver_branch", AnsibleUndefined(name="somewhere"), UNDEFINED),
        ("model_trainer_configs", {"faces": [AnsibleUndefined(name="x")]}, UNDEFINED),
    ],
)
def test_a_problem_is_one_line(name: str, value: Any, problem: str) -> None:
    assert problems(**{name: value}) == [name + problem]
    assert "\n" not in problem


SKIPS = {"verify": {"verify_skip_checks": {"type": "dict", "default": {}}}}
FIRM = "it cannot be switched off: "
COUNT = FIRM + "it detects a lost GPU; if a card was removed on purpose, correct the expected number"
UVM = FIRM + "a part of the driver is missing"
WAIVERS = FIRM + "it shows that a waiver has no effect"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, []),
        ({"gpu.link_width": "riser with 8 lanes", "host.cpu_governor": "set by the firmware"}, []),
        ({"gpu.link_width": "{{ site_reason }}"}, []),
        ({"gpu.link_wdith": "x"}, ["gpu.link_wdith: there is no such check, did you mean gpu.link_width?"]),
        ({"qqq": "x"}, ["qqq: there is no such check"]),
        ({5: "x"}, ["5: there is no such check"]),
        ({"gpu.count": "x", "driver.uvm": "y"}, [f"driver.uvm: {UVM}", f"gpu.count: {COUNT}"]),
        ({"waivers.valid": "x"}, [f"waivers.valid: {WAIVERS}"]),
        ({"gpu.sram": ""}, ["gpu.sram: it has no reason"]),
        ({"gpu.sram": 5}, ["gpu.sram: it has no reason"]),
        ({"gpu.sram": "two\nlines"}, ["gpu.sram: its reason is longer than 200 characters or not one line"]),
        ("gpu.sram=x", [f"{A_REASON} (given: 'gpu.sram=x')"]),
    ],
)
def test_checks_that_may_not_be_switched_off_stop_before_any_host(value: Any, expected: list[str]) -> None:
    found = sentences(variable_problems({"verify_skip_checks": value}, SKIPS))
    assert found == [f"verify_skip_checks: {problem}" for problem in expected]


def test_a_list_is_no_dict_of_checks() -> None:
    [found] = sentences(variable_problems({"verify_skip_checks": ["gpu.sram"]}, SKIPS))
    assert A_REASON in found and "(given: ['gpu.sram'])" in found


@pytest.mark.parametrize(
    "value",
    [
        "https://user:canary@mirror:port/x",
        "https://user:can/canary@mirror/x",
        "https://user:canary@/x",
        "user:canary@mirror/x",
        "https://user:canary@mirror/with space",
        "https://a-rather-long-user-name:" + "canary" * 9 + "@mirror:port/",
        ["https://user:canary@mirror/"],
        {"https://user:canary@mirror/": 1},
    ],
)
def test_a_login_is_not_shown(value: Any) -> None:
    found = problems(system_driver_repository_url=value)
    assert len(found) == 1 and "canar" not in found[0], found


@pytest.mark.parametrize(
    "value",
    [
        "https://user:s3cret@mirror/x/",
        "https://user:s3c%2Fret@mirror:8443/x/",
        "http://[2001:db8::1]:8080/",
        "https://mirror/$releasever/$basearch/",
        "file:///srv/mirror",
    ],
)
def test_addresses_that_are_fine(value: str) -> None:
    assert problems(system_driver_repository_url=value) == []


@pytest.mark.parametrize("value", ["580", "580.95.05", "", "2.10.0+cu128", "8.9.7-1.el8", "12"])
def test_versions_that_are_fine(value: str) -> None:
    assert problems(system_driver_version=value) == []


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"system_reboot_timeout": "900"},
        {"system_driver_version_lock": "yes"},
        {"system_driver_repository_url": "file:///srv/mirror"},
        {"framework_pytorch_index_url": ""},
        {"model_trainer_gpu_count": 0},
        {"model_trainer_gpu_count": "0"},
        {"system_driver_key_fingerprint": "610C7B14E068A878070DA4E99CD0A493D42D0685"},
        {"system_driver_branch": wrap_var("580")},
        {"system_driver_branch": "{{ site_branch }}"},
        {"system_reboot_timeout": "{{ 10 * 60 }}"},
        {"model_trainer_configs": {"faces": {"batch_size": 64}}},
        {"model_trainer_logging": {"level": "debug"}},
        {"framework_pytorch_lock_file": "/srv/own.txt"},
        # Not ours: neither the prefix of a role nor close to one of our names.
        {"system_wide_proxy": "x", "ansible_user": "root", "__other": 1},
        {"gpuwright_lock": "break"},
        {"gpuwright_lock": ""},
        {"gpuwright_lock": None},
        {"gpuwright_lock": "{{ site_lock }}"},
    ],
)
def test_what_is_fine_is_not_mentioned(variables: dict[str, Any]) -> None:
    assert problems(**variables) == []


@pytest.mark.parametrize("word", ["brake", "Break", "true", True, ["break"], 1])
def test_a_slip_in_the_word_that_breaks_a_lock_is_told_before_any_host_is_asked(word: Any) -> None:
    (line,) = variable_problems({"gpuwright_lock": word}, SPECS)
    assert line.startswith(f"gpuwright_lock is {word}, expected break") and line.endswith("[operator.takeover]")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("framework_pytorch_index_password", 271828),
        ("framework_pytorch_index_password", ["canary-271828"]),
        ("framework_pytorch_api_token", "canary-271828"),
        ("framework_pytorch_netrc", "canary-271828"),
        ("model_trainer_logging", {"level": "loud", "token": "canary-271828"}),
        ("model_trainer_logging", {"secret": "canary-271828"}),
    ],
)
def test_secrets_are_never_shown(name: str, value: Any) -> None:
    found = problems(**{name: value})
    assert len(found) == 1 and found[0].startswith(f"{name}: ")
    assert "271828" not in found[0]


def test_an_encrypted_value_is_neither_read_nor_judged() -> None:
    # Without the vault's password, reading it would raise.
    encrypted = AnsibleVaultEncryptedUnicode(b"$ANSIBLE_VAULT;1.1;AES256\n6162")
    assert problems(framework_pytorch_index_password=encrypted, model_trainer_configs={"faces": encrypted}) == []


def test_a_part_of_a_value_is_told() -> None:
    assert "level" in problems(model_trainer_logging={"level": "loud"})[0]
    assert problems(model_trainer_paths=["1", "two"])[0].startswith(
        "model_trainer_paths: is not what its argument spec"
    )


def test_a_long_value_is_cut() -> None:
    (found,) = problems(system_driver_version="x" * 500)
    assert len(found) < 150 and found.endswith("...)")


def test_all_problems_come_at_once_in_order() -> None:
    found = problems(system_reboot_policy="maybe", model_trainer_gpu_count=-3, system_driver_brnach="580")
    assert [line.split(":")[0].split(",")[0] for line in found] == [
        "model_trainer_gpu_count",
        "system_reboot_policy",
        "unknown variable system_driver_brnach",
    ]


@pytest.mark.parametrize(("variables", "specs"), [(["x"], SPECS), ({}, None), (AnsibleUndefined(name="x"), SPECS)])
def test_bad_input_is_an_error_and_not_a_pass(variables: Any, specs: Any) -> None:
    with pytest.raises(AnsibleFilterError, match="expects a dict of variables"):
        variable_problems(variables, specs)


def test_the_defaults_of_every_role_pass_its_own_specs() -> None:
    specs: dict[str, dict[str, Any]] = {}
    defaults: dict[str, Any] = {}
    for file in sorted(REPOSITORY.glob("roles/*/meta/argument_specs.yml")):
        specs[file.parts[-3]] = yaml.safe_load(file.read_text())["argument_specs"]["main"].get("options") or {}
        role_defaults = file.parents[1] / "defaults/main.yml"
        if role_defaults.exists():
            defaults.update(yaml.safe_load(role_defaults.read_text()) or {})
    assert len(specs) >= 5
    # Empty defaults of internal roles are filled by the role that calls them.
    assert variable_problems({name: value for name, value in defaults.items() if value != ""}, specs) == []


@pytest.mark.parametrize(
    ("configs", "told"),
    [
        ({"faces": {"stpes": 1}}, "model_trainer_configs.faces: stpes: unknown key with value 1; did you mean steps?"),
        (
            {"faces": {"image_size": 100}},
            "model_trainer_configs.faces: image_size: 100 is out of range; allowed: 32, 64, 128, 256, 512, 1024",
        ),
        ({"a b": {}}, "model_trainer_configs.a b: must be a name of letters, digits, -, _ and ., for the service"),
        (
            {"faces": [1]},
            "model_trainer_configs.faces: must be settings such as {image_size: 128}, or {} for none (given: [1])",
        ),
        ({"faces": {"warmup_steps": 10, "steps": 5}}, "warmup_steps: 10 leaves no other step; allowed: 0 to 4"),
        ({"faces": {"data": "{{ somewhere }}"}}, ""),
        ({"faces": {"data": "/srv/gan/data/faces", "lr_generator": "2e-4"}, "default": None, "empty": {}}, ""),
    ],
)
@pytest.mark.parametrize("text", [str, AnsibleUnicode, wrap_var], ids=["plain", "inventory", "told-by-a-host"])
def test_trainings_are_checked_before_any_host_is_asked(configs: dict, told: str, text: Callable) -> None:
    """Else the service would refuse them, on each host, when somebody starts it."""
    found = problems(model_trainer_configs=with_text(configs, text))
    assert (told in found[0] and len(found) == 1) if told else found == []


@pytest.mark.parametrize(
    ("jobs", "told"),
    [
        ({"faces": {}}, "model_trainer_jobs.faces: no command: set GPU_JOB_COMMAND"),
        ({"faces": {"command": "python 'x"}}, "No closing quotation; quote it as for a shell"),
        ({"faces": {"cmd": "python"}}, "model_trainer_jobs.faces: must have lines for these alone: command, gpus,"),
        ({"faces": "python x"}, "model_trainer_jobs.faces: must have lines for these alone"),
        ({"a b": {"command": "x"}}, "must be a name of letters, digits, -, _ and ., for the service gpu-job@NAME"),
        ({"faces": {"command": "x", "processes": "8"}}, "GPU_JOB_PROCESSES=8: choose from each-gpu, one"),
        ({"faces": {"command": "x", "share": "yes"}}, "model_trainer_jobs.faces.share: must be true or false"),
        (
            {"faces": {"command": "x", "environment": {"A-B": 1}}},
            "model_trainer_jobs.faces.environment: must be names with their values",
        ),
        ({"faces": {"command": "x", "environment": ["A=1"]}}, "model_trainer_jobs.faces.environment: must be"),
        ({"faces": {"command": "python x", "gpus": "0,1", "share": True, "environment": {"SEED": 7}}}, ""),
    ],
)
@pytest.mark.parametrize("text", [str, AnsibleUnicode, wrap_var], ids=["plain", "inventory", "told-by-a-host"])
def test_jobs_are_checked_before_any_host_is_asked(jobs: dict, told: str, text: Callable) -> None:
    found = problems(model_trainer_jobs=with_text(jobs, text))
    assert (told in found[0] and len(found) == 1) if told else found == []


def test_the_file_of_a_job_gives_its_values_back() -> None:
    """As systemd.exec(5) reads it: within double quotes a backslash keeps a quote and a backslash as they are."""
    template = (REPOSITORY / "roles/model_trainer/templates/gpu-job.j2").read_text()
    odd = """python t.py --text 'a "b" \\ $HOME %i # ;' `x`"""
    job = {"command": odd, "gpus": "0", "environment": {"SEED": 7, "EMPTY": ""}}
    written = jinja2.Environment(trim_blocks=True, undefined=jinja2.StrictUndefined).from_string(template)
    lines = written.render(__model_trainer_mark="# mark", __model_trainer_instance=job).splitlines()
    assert lines[0] == "# mark"
    found = dict(line.partition("=")[::2] for line in lines[1:] if line)
    wanted = {"GPU_JOB_COMMAND": odd, "GPU_JOB_GPUS": "0", "GPU_JOB_SHARE": "no", "SEED": "7", "EMPTY": ""}
    assert {name: re.sub(r'\\(["\\])', r"\1", value[1:-1]) for name, value in found.items()} == wanted
    assert all(value.startswith('"') and value.endswith('"') for value in found.values())


def with_text(value: Any, text: Callable) -> Any:
    """The value with each text in it as Ansible hands it over."""
    if isinstance(value, dict):
        return {with_text(key, text): with_text(inner, text) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_text(inner, text) for inner in value]
    return text(value) if isinstance(value, str) else value


def test_the_filter_knows_the_variables_of_roles_by_their_names() -> None:
    problems_of = plugin.FilterModule().filters()["variable_problems"]
    assert problems_of({"system_cuda_version": "12.9"}, ["system_cuda"]) == []
    assert problems_of({"system_cuda_version": "none"}, ["system_cuda"]) == []
    assert problems_of({"system_cuda_version": "nothing"}, ["system_cuda"]) != []
    (line,) = problems_of({"system_cuda_versoin": "12.9"}, ["system_cuda", "verify"])
    assert line == "unknown variable system_cuda_versoin, did you mean system_cuda_version? [variable.unknown]"


def test_variables_of_every_role_that_a_play_lists_are_checked() -> None:
    layers = [(REPOSITORY / f"playbooks/{name}.yml").read_text() for name in ("system", "framework", "model", "verify")]
    listed = {role for text in layers for role in re.findall(r"(?:- role|  name): gpuwright\.node\.(\w+)", text)}
    assert {"system_driver", "verify"} <= listed
    assert listed - set(CHECKED) == set()


MIG = {"verify": {"verify_expected_mig": {"type": "dict", "default": {}}}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1], "must name the devices of each card, such as {all: [3g.20gb, 3g.20gb]} (given: [1])"),
        ({"all": ["3g.20gb", "9g.20gb", "3g.20", "9g.20gb"]}, "mig.all has '3g.20', '9g.20gb'; expected names as"),
        ({"all": [320]}, "mig.all has 320; expected names as nvidia-smi mig -lgip prints them, such as 3g.20gb"),
        ({"0": "3g.20gb"}, "mig.0 is '3g.20gb'; expected a list of at most 7, such as [3g.20gb, 3g.20gb]"),
        ({"all": ["1g.10gb"] * 8}, "mig.all has 8 names; expected a list of at most 7"),
    ],
)
def test_a_mig_device_that_does_not_exist_is_named(value: Any, expected: str) -> None:
    [found] = sentences(variable_problems({"verify_expected_mig": value}, MIG))
    assert expected in found and "type" not in found and "dict" not in found
