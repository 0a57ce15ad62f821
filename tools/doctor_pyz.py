"""Build gpu-doctor.pyz, the one file that scans any machine (`make pyz`)."""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "collections"))
from ansible_collections.gpuwright.node.plugins.plugin_utils import doctor_pyz

if __name__ == "__main__":
    try:
        file = doctor_pyz.write(REPOSITORY / "build")
    except (OSError, ValueError) as error:
        sys.exit(f"{doctor_pyz.NAME}: cannot be built: {error}")
    print(f"{file.relative_to(REPOSITORY)}: {file.stat().st_size} bytes, version {doctor_pyz.version()}")
