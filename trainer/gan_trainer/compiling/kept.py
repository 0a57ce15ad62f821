# SPDX-License-Identifier: Apache-2.0
"""The extension of an earlier trial, which need not be compiled again while all that it was made with is the same."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

# What g++ itself consists of, and what it links with; clang++ answers these, too.
PARTS = ("-print-prog-name=cc1plus", "-print-prog-name=as", "-print-prog-name=ld", "-print-file-name=libstdc++.so")


def kept_file(compiler: str, torch: Any) -> Path | None:
    """Where an extension made with this compiler and PyTorch stays, if anywhere: in the user's TORCH_EXTENSIONS_DIR.

    The name has the times and sizes of the compiler's parts, of the headers and of PyTorch's library.
    """
    place = os.environ.get("TORCH_EXTENSIONS_DIR")
    if not place:
        return None
    asked = [subprocess.run([compiler, part], stdout=subprocess.PIPE, text=True).stdout.strip() for part in PARTS]
    top = Path(torch.__file__).parent
    files = [shutil.which(name) or name for name in (compiler, *asked)]
    files += [sysconfig.get_path("include", "posix_prefix") + "/Python.h"]
    files += [str(top / name) for name in ("lib/libtorch_cpu.so", "include/torch/library.h", "utils/cpp_extension.py")]
    source = Path(__file__).with_name("steps.py").read_text(encoding="utf-8")
    parts = [torch.__version__, sysconfig.get_config_var("EXT_SUFFIX"), source]
    parts += [f"{file} {_state(file)}" for file in files]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return Path(place) / "gan_compiled" / f"{digest[:32]}.so"


def _state(file: str) -> str:
    try:
        found = Path(file).stat()
    except OSError:
        return "absent"
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ino}"


def keep(made: Path, kept: Path) -> Path:
    """Put it there, as the only one; it is as if it had been built there."""
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in kept.parent.glob("*.so"):
        old.unlink()
    half = kept.with_suffix(f".{os.getpid()}")
    try:
        shutil.copyfile(made, half)
        half.replace(kept)
    finally:
        half.unlink(missing_ok=True)
    return kept
