"""Module streams: reading dnf's state, deciding, and the module with a dnf and an /etc/dnf of its own."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from gpuwright.packages.module_streams import (
    Selection,
    StreamError,
    check_name,
    parse_module_list,
    plan_commands,
    read_selection,
    unknown_stream,
)
from host_tree import HostTree

REPOSITORY = Path(__file__).resolve().parents[3]
NAME = "nvidia-driver"
NOTHING = Selection("", "")
DISABLED = Selection("disabled", "")


def enabled(stream: str) -> Selection:
    return Selection("enabled", stream)


def state_text(state: str, stream: str) -> str:
    return f"[{NAME}]\nname={NAME}\nstream={stream}\nprofiles=\nstate={state}\n"


@pytest.fixture
def host(tmp_path):
    return HostTree(tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, NOTHING),
        ("", NOTHING),
        (state_text("enabled", "580-dkms"), enabled("580-dkms")),
        (state_text("disabled", ""), DISABLED),
        (state_text("", ""), NOTHING),
        (state_text("", "535-dkms"), NOTHING),
        ("[other]\nstate=enabled\nstream=1\n", NOTHING),
        (state_text("enabled", "100%d"), enabled("100%d")),
    ],
)
def test_the_recorded_state(host, text, expected):
    if text is not None:
        host.put(f"/etc/dnf/modules.d/{NAME}.module", text)
    assert read_selection(NAME, host.root) == expected


@pytest.mark.parametrize("text", ["no section\n", state_text("maybe", "1"), f"[{NAME}]\nstate\n", "\xff\xfe[x"])
def test_a_damaged_state_is_an_error_that_says_what_to_do(host, text):
    host.put(f"/etc/dnf/modules.d/{NAME}.module", text)
    with pytest.raises(StreamError, match=f"/etc/dnf/modules.d/{NAME}.module.*dnf module reset {NAME}"):
        read_selection(NAME, host.root)


# As dnf 4.14 printed it for two repositories with the same module, one stream enabled.
TABLE = """cuda-rhel8-x86_64
Name          Stream        Profiles                 Summary
nvidia-driver latest-dkms   default, fm, ks, src     Nvidia driver for the latest-dkms branch, a rather long summary
nvidia-driver open-dkms [d] default [d], fm, ks, src Nvidia driver for the open-dkms branch
nvidia-driver 535-dkms [d][e] default [d] [i], fm    Nvidia driver
                            ks, src                  nvidia-driver 888 in a cell that continues
nvidia-driver 570 [x]       default                  Nvidia driver
nvidia-driver 580-dkms [a]
nvidia-driver-extra 1       default                  Another module

mirror
Name          Stream        Profiles                 Summary
nvidia-driver 580-dkms [e]  default, fm, ks, src     nvidia-driver 999 is no row of its own
nvidia-driver 610-open      default, fm, ks, src     Nvidia driver

Hint: [d]efault, [e]nabled, [x]disabled, [i]nstalled, [a]ctive
"""


def test_the_table_of_dnf():
    assert parse_module_list(NAME, TABLE) == ["latest-dkms", "open-dkms", "535-dkms", "570", "580-dkms", "610-open"]


@pytest.mark.parametrize(
    "text", ["", "Hint: [d]efault\n", "nvidia-driver\n", "nvidia-driver [d]\n", "nvidiaxdriver 1 \n"]
)
def test_what_is_no_row(text):
    assert parse_module_list(NAME, text) == []


@pytest.mark.parametrize(
    ("wanted", "before", "expected"),
    [
        (enabled("580-dkms"), enabled("580-dkms"), []),
        (NOTHING, NOTHING, []),
        (DISABLED, DISABLED, []),
        (enabled("580-dkms"), NOTHING, ["enable nvidia-driver:580-dkms"]),
        (enabled("580-dkms"), DISABLED, ["enable nvidia-driver:580-dkms"]),
        (DISABLED, enabled("1"), ["disable nvidia-driver"]),
        (NOTHING, enabled("1"), ["reset nvidia-driver"]),
        (enabled("580-dkms"), enabled("535-dkms"), ["reset nvidia-driver", "enable nvidia-driver:580-dkms"]),
    ],
)
def test_commands(wanted, before, expected):
    found = [" ".join(command) for command in plan_commands(NAME, wanted, before, [])]
    assert found == ["dnf -y module " + words for words in expected]


def test_a_switch_removes_before_it_forgets_the_old_stream():
    commands = plan_commands(NAME, enabled("2"), enabled("1"), ["b", "c"])
    assert commands[0] == ["dnf", "-y", "remove", "b", "c"]
    assert [command[3] for command in commands[1:]] == ["reset", "enable"]


@pytest.mark.parametrize(
    "text", ["", "-y", "--installroot=/", "a b", "a:b", "a;reboot", "../x", "a\nb", "é", "x" * 200]
)
def test_names_that_dnf_would_misunderstand(text):
    with pytest.raises(StreamError, match="stream is"):
        check_name("stream", text)


@pytest.mark.parametrize(
    ("stream", "words"),
    [("580-dkm", "Did you mean 580-dkms"), ("580", "Did you mean 580-dkms"), ("latest", "Did you mean latest-dkms")],
)
def test_an_unknown_stream_names_its_neighbours(stream, words):
    text = unknown_stream(NAME, stream, ["latest-dkms", "open-dkms", "535-dkms", "580-dkms"])
    assert words in text and "Available: latest-dkms, open-dkms, 535-dkms, 580-dkms" in text


def test_an_unknown_module_asks_for_its_repository():
    assert "dnf repolist" in unknown_stream(NAME, "580-dkms", [])


# A dnf that does what the tests need: it lists, records in /etc/dnf/modules.d, and writes down how it was called.
FAKE_DNF = """#!/bin/sh
echo "dnf $*" >> LOG
[ "$1" = -q ] && shift
[ "$1" = -y ] && shift
state() {
    printf '[%s]\\nname=%s\\nstream=%s\\nstate=%s\\n' "$1" "$1" "$2" "$3" > /etc/dnf/modules.d/$1.module
}
case "$1 $2" in
    "module list") [ "$3" = nvidia-driver ] || { echo "Error: No matching Modules to list" >&2; exit 1; }
        cat TABLE ;;
    "module enable") state "${3%%:*}" "${3#*:}" enabled ;;
    "module disable") state "$3" "" disabled ;;
    "module reset") state "$3" "" "" ;;
    remove*) ;;
    *) exit 3 ;;
esac
"""
# In a mount namespace: what changes in /etc goes to a folder of the test.
OWN_ETC = (
    'mount --make-rprivate / && mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" /etc'
)
FAKE_RPM = "#!/bin/sh\nprintf 'nvidia-driver-cuda\\nkmod-nvidia-latest-dkms\\nkmod-nvidia-latest-dkms\\n'\n"


class Node:
    """Runs the module with an /etc/dnf of its own and counts what dnf was asked."""

    def __init__(self, folder: Path, fake_bin, python: str, ansible_path: Path) -> None:
        self.folder, self.fake_bin, self.python, self.ansible_path = folder, fake_bin, python, ansible_path
        self.modules = folder / "etc_dnf" / "modules.d"
        for each in (self.modules, folder / "upper", folder / "work"):
            each.mkdir(parents=True)
        (folder / "table").write_text(TABLE)
        self.log = folder / "dnf.log"
        self.dnf(FAKE_DNF)
        fake_bin("rpm", FAKE_RPM)

    def dnf(self, script: str) -> None:
        self.fake_bin("dnf", script.replace("LOG", str(self.log)).replace("TABLE", str(self.folder / "table")))

    def recorded(self, state: str, stream: str) -> None:
        (self.modules / f"{NAME}.module").write_text(state_text(state, stream))

    def asked(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def run(self, check: bool = False, **arguments) -> dict:
        file = self.folder / "args.json"
        arguments = {"name": NAME, "_ansible_check_mode": check, "_ansible_diff": True, **arguments}
        file.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": arguments}))
        script = f'{OWN_ETC} && mkdir -p /etc/dnf && mount --bind "$1/etc_dnf" /etc/dnf && shift && exec "$@"'
        module = str(REPOSITORY / "library" / "dnf_module_stream.py")
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", str(self.folder), self.python, module, str(file)],
            env={
                "PATH": f"{self.folder / 'fake_bin'}:/usr/sbin:/usr/bin:/sbin:/bin",
                "PYTHONPATH": str(self.ansible_path),
                "PYTHONDONTWRITEBYTECODE": "1",
                "LANG": "C.UTF-8",
            },
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def own_etc(tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("etc")
    for name in ("upper", "work"):
        (folder / name).mkdir()
    tried = ["unshare", "--mount", "sh", "-c", OWN_ETC, "sh", str(folder)]
    if os.geteuid() != 0 or subprocess.run(tried).returncode != 0:
        pytest.skip("needs root, mount namespaces and overlayfs, to give the module an /etc/dnf of its own")


@pytest.fixture
def node(own_etc, tmp_path, fake_bin, node_python, ansible_path):
    return Node(tmp_path, fake_bin, node_python, ansible_path)


def test_a_fresh_host_gets_the_stream_and_a_second_run_asks_nobody(node):
    answer = node.run(stream="580-dkms")
    assert answer["changed"] and (answer["stream_before"], answer["stream_after"]) == ("", "580-dkms")
    assert "610-open" in answer["available"]
    assert answer["diff"] == {
        "before": "module nvidia-driver: not selected\n",
        "after": "module nvidia-driver: enabled 580-dkms\n",
    }
    assert node.asked() == ["dnf -q -y module list nvidia-driver", "dnf -y module enable nvidia-driver:580-dkms"]
    again = node.run(stream="580-dkms")
    assert (again["changed"], again["stream_before"], again["available"]) == (False, "580-dkms", None)
    assert len(node.asked()) == 2


def test_check_mode_predicts_and_changes_nothing(node):
    answer = node.run(check=True, stream="580-dkms")
    assert answer["changed"] and answer["stream_after"] == "580-dkms"
    assert node.asked() == ["dnf -q -y module list nvidia-driver"]
    assert list(node.modules.iterdir()) == []


@pytest.mark.parametrize("check", [False, True])
def test_a_switch_is_refused_with_everything_it_would_do(node, check):
    node.recorded("enabled", "535-dkms")
    answer = node.run(check=check, stream="580-dkms", packages=["nvidia-driver*", "kmod-nvidia*"])
    assert answer["failed"] and not answer["changed"]
    for words in (
        "535-dkms", "580-dkms", "system_driver_allow_stream_switch: true",
        "dnf -y remove kmod-nvidia-latest-dkms nvidia-driver-cuda; dnf -y module reset nvidia-driver; "
        "dnf -y module enable nvidia-driver:580-dkms",
    ):  # fmt: skip
        assert words in answer["msg"]
    assert answer["packages_to_remove"] == ["kmod-nvidia-latest-dkms", "nvidia-driver-cuda"]
    assert (answer["stream_before"], answer["stream_after"]) == ("535-dkms", "535-dkms")
    assert node.asked() == ["dnf -q -y module list nvidia-driver"]


def test_an_allowed_switch(node):
    node.recorded("enabled", "535-dkms")
    answer = node.run(stream="580-dkms", packages=["nvidia-driver-cuda"], allow_switch=True)
    assert answer["changed"] and (answer["stream_before"], answer["stream_after"]) == ("535-dkms", "580-dkms")
    assert node.asked()[1:] == answer["commands"]
    assert [words.split()[2] for words in answer["commands"]] == ["remove", "module", "module"]


def test_an_allowed_switch_in_check_mode(node):
    node.recorded("enabled", "535-dkms")
    answer = node.run(check=True, stream="580-dkms", packages=["nvidia-driver-cuda"], allow_switch=True)
    assert answer["changed"] and len(answer["commands"]) == 3
    assert node.asked() == ["dnf -q -y module list nvidia-driver"]


def test_a_switch_to_a_stream_that_is_not_offered_removes_nothing(node):
    node.recorded("enabled", "535-dkms")
    answer = node.run(stream="580-dkm", packages=["nvidia-driver-cuda"], allow_switch=True)
    assert answer["failed"] and "Did you mean 580-dkms" in answer["msg"]
    assert node.asked() == ["dnf -q -y module list nvidia-driver"]


def test_a_switch_that_breaks_half_way_goes_on_at_the_next_run(node):
    node.recorded("enabled", "535-dkms")
    node.dnf(FAKE_DNF.replace('"module reset")', '"module reset") echo "Error: disk full" >&2; exit 1;;\n"x")'))
    answer = node.run(stream="580-dkms", packages=["nvidia-driver-cuda"], allow_switch=True)
    assert answer["failed"] and answer["changed"] and "disk full" in answer["msg"]
    assert "dnf -y module reset nvidia-driver failed with exit status 1" in answer["msg"]
    node.dnf(FAKE_DNF)
    assert node.run(stream="580-dkms", allow_switch=True)["stream_after"] == "580-dkms"
    assert node.run(stream="580-dkms")["changed"] is False


@pytest.mark.parametrize(
    ("state", "before", "expected"),
    [
        ("disabled", ("enabled", "535-dkms"), True),
        ("disabled", ("disabled", ""), False),
        ("reset", ("enabled", "535-dkms"), True),
        ("reset", ("disabled", ""), True),
        ("reset", ("", ""), False),
    ],
)
def test_disable_and_reset(node, state, before, expected):
    node.recorded(*before)
    assert node.run(state=state)["changed"] is expected
    assert node.run(state=state)["changed"] is False


def test_success_that_changed_nothing_is_not_believed(node):
    node.dnf(FAKE_DNF.replace('"module enable")', '"module enable") exit 0;;\n"x")'))
    answer = node.run(stream="580-dkms")
    assert answer["failed"] and "dnf reported success, but recorded" in answer["msg"]


def test_repositories_that_do_not_answer(node):
    words = "Error: Failed to download metadata for repo 'cuda-rhel8-x86_64': Cannot download repomd.xml"
    node.dnf(f'#!/bin/sh\necho "{words}" >&2\nexit 1\n')
    answer = node.run(stream="580-dkms")
    assert answer["failed"] and words in answer["msg"] and "dnf -q -y module list nvidia-driver failed" in answer["msg"]


def test_whoever_holds_the_lock_is_named(node):
    node.dnf('#!/bin/sh\nsleep 100 &\necho "Waiting for process with pid $! to finish." >&2\nexec sleep 100\n')
    start = time.monotonic()
    answer = node.run(stream="580-dkms", timeout=1)
    assert time.monotonic() - start < 60
    assert answer["failed"] and "did not finish within 1 s" in answer["msg"]
    assert "held by process" in answer["msg"]


def test_a_transaction_that_is_late_may_end_in_order(node):
    ended = node.folder / "ended"
    node.dnf(f"#!/bin/sh\ntrap 'sleep 0.3; touch {ended}; exit 1' TERM\nsleep 100 &\nwait\n")
    assert node.run(stream="580-dkms", timeout=1)["failed"]
    deadline = time.monotonic() + 5
    while not ended.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ended.exists()


def test_a_lock_that_dnf_does_not_wait_for_is_named(node):
    pid = os.getpid()
    node.dnf(f'#!/bin/sh\necho "Error: another copy is running as pid {pid}." >&2\nexit 200\n')
    answer = node.run(stream="580-dkms")
    assert answer["failed"] and f"held by process {pid} (" in answer["msg"] and "python" in answer["msg"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "stream"),
        ({"stream": "--installroot=/"}, "stream is '--installroot=/'"),
        ({"name": "-y", "stream": "1"}, "name is '-y'"),
        ({"stream": "1", "packages": ["-y"]}, "packages is '-y'"),
        ({"stream": "1", "state": "reset"}, "state reset takes none"),
        ({"stream": "1", "state": "on"}, "state"),
        ({"stream": "1", "timeout": 0}, "timeout is 0"),
    ],
)
def test_usage_errors(run_module, arguments, words):
    answer = run_module("dnf_module_stream", {"name": "gpuwright-test", **arguments})
    assert answer["failed"] and words in answer["msg"]


def test_a_host_without_dnf(run_module, fake_bin):
    fake_bin("dnf", "#!/no/such/interpreter\n")
    answer = run_module("dnf_module_stream", {"name": "gpuwright-test", "stream": "1"})
    assert answer["failed"] and "dnf cannot be run" in answer["msg"]


# Packages with versions in a file, a mirror that may be away, and dnf shell as dnf 4.14 has it: it always ends with 0.
SWITCHING_DNF = FAKE_DNF.replace(
    '[ "$1" = -q ] && shift',
    'case "$*" in *shell*) for script; do :; done; tr "\\\\n" ";" < "$script" >> LOG; echo >> LOG;;\nesac\n'
    'case "$*" in\n'
    '*--downloadonly*shell*) [ ! -e FOLDER/mirror-away ] || { echo "Error: Error downloading packages:" >&2;\n'
    '  echo "  Cannot download x.rpm: All mirrors were tried" >&2; exit 0; }; touch FOLDER/cached; exit 0;;\n'
    '*-C*shell*) [ -e FOLDER/cached ] || { echo "Error: cacheonly" >&2; exit 0; }\n'
    '  [ ! -e FOLDER/disk-full ] || { echo "Error: Transaction test error: needs 5MB more space" >&2; exit 0; }\n'
    "  [ ! -e FOLDER/lies ] || exit 0\n"
    "  sed -i 's/ .*/ 580.95.05/' FOLDER/installed; exit 0;;\n"
    '*repoquery*) for name; do echo "$name"; done | grep -x "kmod-nvidia-latest-dkms\\\\|nvidia-driver-cuda";;\n'
    'esac\ncase "$*" in *repoquery*) exit 0;; esac\n[ "$1" = -q ] && shift',
)
SWITCH = {
    "packages": ["nvidia-driver*", "kmod-nvidia*", "libnvidia-ml"],
    "install": ["kmod-nvidia-latest-dkms", "nvidia-driver-cuda", "nvidia-modprobe"],
    "version": "580",
    "allow_switch": True,
}


@pytest.fixture
def switching(node):
    """A node with driver 535 of stream 535-dkms."""
    node.recorded("enabled", "535-dkms")
    node.dnf(SWITCHING_DNF.replace("FOLDER", str(node.folder)))
    node.installed = node.folder / "installed"
    node.installed.write_text(
        "kmod-nvidia-latest-dkms 535.261.03\nlibnvidia-ml 535.261.03\nnvidia-driver-cuda 535.261.03\n"
    )
    node.fake_bin("rpm", f"#!/bin/sh\ncat {node.installed}\n")
    node.stream = lambda: (node.modules / f"{NAME}.module").read_text()
    return node


def test_a_switch_downloads_first_and_is_one_transaction(switching):
    answer = switching.run(stream="580-dkms", **SWITCH)
    assert answer["changed"] and answer["stream_after"] == "580-dkms", answer
    script = "remove libnvidia-ml;distro-sync kmod-nvidia-latest-dkms nvidia-driver-cuda;install nvidia-modprobe;run;"
    asked = switching.asked()
    assert asked.count(script) == 2 and not any("dnf -y remove" in line for line in asked)
    shells = [line.split(" shell")[0] for line in asked if " shell " in line]
    assert shells == ["dnf -y --allowerasing --downloadonly", "dnf -y -C --allowerasing"]
    assert "535" not in switching.installed.read_text()
    assert switching.run(stream="580-dkms", **SWITCH)["changed"] is False


@pytest.mark.parametrize("fault", ["mirror-away", "disk-full", "lies"])
def test_a_switch_that_fails_leaves_driver_and_stream(switching, fault):
    (switching.folder / fault).touch()
    before = switching.installed.read_text()
    answer = switching.run(stream="580-dkms", **SWITCH)
    words = {"mirror-away": "downloading", "disk-full": "more space", "lies": "is not of version 580"}[fault]
    assert answer["failed"] and words in answer["msg"] and not answer["changed"]
    assert switching.installed.read_text() == before
    assert "stream=535-dkms" in switching.stream() and "state=enabled" in switching.stream()
    (switching.folder / fault).unlink()
    assert switching.run(stream="580-dkms", **SWITCH)["changed"] is True
    assert "535" not in switching.installed.read_text() and "stream=580-dkms" in switching.stream()


def test_a_stream_that_was_never_selected_is_not_selected_after_a_failure(switching):
    (switching.modules / f"{NAME}.module").unlink()
    (switching.folder / "mirror-away").touch()
    assert switching.run(stream="580-dkms", **SWITCH)["failed"]
    assert not (switching.modules / f"{NAME}.module").exists()


def test_packages_that_have_changed_keep_the_new_stream(switching):
    """A transaction that broke half-way: the old stream would mix with what is there now."""
    switching.dnf(
        SWITCHING_DNF.replace("FOLDER", str(switching.folder)).replace(
            "sed -i 's/ .*/ 580.95.05/'", "sed -i '1s/ .*/ 580.95.05/'"
        )
    )
    answer = switching.run(stream="580-dkms", **SWITCH)
    assert answer["failed"] and "libnvidia-ml, nvidia-driver-cuda is not of version 580" in answer["msg"]
    assert "stream=580-dkms" in switching.stream()


@pytest.mark.parametrize("allowed", [True, False])
def test_a_run_that_was_killed_between_stream_and_packages_goes_on(switching, allowed):
    switching.recorded("enabled", "580-dkms")
    answer = switching.run(stream="580-dkms", **{**SWITCH, "allow_switch": allowed})
    assert answer["changed"] is allowed
    assert ("535" in switching.installed.read_text()) is not allowed
    assert allowed or ("with packages of another version" in answer["msg"] and "distro-sync" in answer["msg"])


def test_a_switch_that_is_not_allowed_or_not_real_touches_nothing(switching):
    before = switching.installed.read_text()
    refused = switching.run(stream="580-dkms", **{**SWITCH, "allow_switch": False})
    assert refused["failed"] and "dnf -y --allowerasing distro-sync" in refused["msg"]
    predicted = switching.run(check=True, stream="580-dkms", **SWITCH)
    assert predicted["changed"] and "535" in predicted["stream_before"]
    assert switching.installed.read_text() == before and "stream=535-dkms" in switching.stream()
    assert switching.asked() == ["dnf -q -y module list nvidia-driver"] * 2
