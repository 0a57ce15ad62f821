"""--gate and --nagios load no check: monitors and jobs ask too often for that."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import MODULE_UTILS

LOADED = """
import sys
sys.path.insert(0, {library!r})
from gpuwright.doctor.start import main
status = main({arguments!r}, {root!r})
print([name for name in sys.modules if name.startswith(("gpuwright.checks", "gpuwright.readings", "argparse"))])
"""


@pytest.mark.parametrize("option", ["--gate", "--nagios"])
def test_what_reads_the_record_loads_no_check(tmp_path, option):
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    (tmp_path / "etc/systemd/system/gpuwright-boot-check.service").write_text("")
    (tmp_path / "var/lib/gpuwright").mkdir(parents=True)
    (tmp_path / "var/lib/gpuwright/boot-check.json").write_text("{}")
    code = LOADED.format(library=str(MODULE_UTILS), arguments=[option], root=str(tmp_path))
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout
