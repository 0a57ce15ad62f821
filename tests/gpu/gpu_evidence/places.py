"""Where the parts of this checkout are. A copy of the tree may lack its links, so they are made again elsewhere."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
HERE = REPOSITORY / "tests/gpu"
ON_TORCH = HERE / "on_torch"
TRAINER = REPOSITORY / "trainer"
BURN_IN = REPOSITORY / "roles/accept/files/burn_in"
BENCH = REPOSITORY / "tests/bench/trainer"
RUNTIME_BENCH = REPOSITORY / "tests/bench/runtime"
# Names of Pillow that the trainer's modules mention; nothing here decodes an image.
WITHOUT_PILLOW = HERE / "without_pillow"
LIBRARY = "plugins/module_utils"


def folder_of(link: Path, name: str, target: Path) -> str:
    """The folder that has `target` under `name`: the checkout's own link, else one in a temporary folder."""
    if (link / name / "__init__.py").exists() or (link / name / "plugins").is_dir():
        return str(link)
    folder = Path(tempfile.mkdtemp(prefix="gpuwright-evidence-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).symlink_to(target)
    return str(folder)


def use_library() -> str:
    """Make `gpuwright` importable, as it is on a node; returns the folder that has it."""
    folder = folder_of(REPOSITORY / "tests/node_library", "gpuwright", REPOSITORY / LIBRARY)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return folder


def torch_paths(pillow: bool) -> str:
    """PYTHONPATH of programs under the interpreter with PyTorch; the caller's own comes last."""
    paths = [TRAINER, BENCH, BURN_IN, ON_TORCH, *([] if pillow else [WITHOUT_PILLOW])]
    library = folder_of(REPOSITORY / "tests/node_library", "gpuwright", REPOSITORY / LIBRARY)
    given = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join([*map(str, paths), library, *([given] if given else [])])
