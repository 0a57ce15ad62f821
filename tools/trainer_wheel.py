"""Build the trainer's wheel where the role model_trainer looks for it first (`make trainer-wheel`)."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "collections"))
from ansible_collections.gpuwright.node.plugins.plugin_utils import trainer_wheel

if __name__ == "__main__":
    target = trainer_wheel.BUILT / trainer_wheel.source_digest()
    if not target.exists():
        shutil.rmtree(trainer_wheel.BUILT, ignore_errors=True)
        try:
            trainer_wheel.build(trainer_wheel.sources(), target)
        except trainer_wheel.WheelError as error:
            sys.exit(f"trainer-wheel: {error}")
    print(next(target.glob("*.whl")).relative_to(REPOSITORY))
