# SPDX-License-Identifier: Apache-2.0
"""The extension of an earlier trial, which need not be compiled again while all that it was made with is the same."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sysconfig
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..safe_files import replacing, sync_folder

FOLDER = "gan_compiled"
# What g++ itself consists of, and what it links with; clang++ answers these, too.
PARTS = (
    *("-print-prog-name=cc1plus", "-print-prog-name=as", "-print-prog-name=ld"),
    *("-print-file-name=libstdc++.so", "-print-file-name=crti.o"),
)
# Variables by which torch.utils.cpp_extension, setuptools, gcc and nvcc build something else.
READ = re.compile(
    r"CC|CXX|CPP|AR|RANLIB|LDSHARED|LDCXXSHARED|[A-Z_]*FLAGS|(?:SETUPTOOLS|DISTUTILS)_\w+|PYTORCH_NVCC"
    r"|(?:CUDA|ROCM|CUDNN)_(?:HOME|PATH|INC_PATH)|(?:TORCH_CUDA|TORCH_XPU|PYTORCH_ROCM)_ARCH(?:_LIST)?"
    r"|TORCH_(?:NO_COMPILER_WRAPPER|DONT_CHECK_COMPILER_ABI|EXTENSION_SKIP_NVCC_GEN_DEPENDENCIES)"
    r"|CPATH|(?:C|CPLUS)_INCLUDE_PATH|LIBRARY_PATH|LD_RUN_PATH|COMPILER_PATH|GCC_\w+|SYSROOT"
)
# Kept files of other environments, and of hosts that share the folder, until nobody has used them for so long.
UNUSED_DAYS = 30
# The bytes of its SHA-256, behind what the linker wrote: a loader does not look there.
SUM_BYTES = hashlib.sha256().digest_size


def kept_file(compiler: str, torch: Any) -> Path | None:
    """Where an extension made with this compiler and PyTorch stays, if anywhere: in the user's TORCH_EXTENSIONS_DIR.

    The name has the host, since a home folder may be that of many, and a sum of the times and sizes of the compiler's
    parts, of the headers and of PyTorch's library, and of the variables that change what is built.
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
    host = os.uname().nodename
    parts = [host, torch.__version__, _version("setuptools"), sysconfig.get_config_var("EXT_SUFFIX"), source]
    parts += [f"{file} {_state(file)}" for file in files]
    parts += [f"{name}={os.environ[name]}" for name in sorted(os.environ) if READ.fullmatch(name)]
    digest = hashlib.sha256("\n".join(parts).encode(errors="surrogateescape")).hexdigest()
    return Path(place) / FOLDER / f"{re.sub('[^A-Za-z0-9-]', '_', host)[:64]}-{digest[:32]}.so"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def _state(file: str) -> str:
    try:
        found = Path(file).stat()
    except OSError:
        return "absent"
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ino}"


def is_whole(kept: Path) -> bool:
    """Whether it is there as it was written; a part of one may end the process that loads it. OSError."""
    try:
        data = kept.read_bytes()
    except FileNotFoundError:
        return False
    if hashlib.sha256(data[:-SUM_BYTES]).digest() != data[-SUM_BYTES:]:
        return False
    # It is in use.
    with suppress(OSError):
        os.utime(kept)
    return True


def keep(made: Path, kept: Path) -> Path:
    """Put it there, whole and on the disk itself, in place of any other; it is as if it had been built there."""
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    data = made.read_bytes()
    with replacing(kept) as file:
        file.write(data + hashlib.sha256(data).digest())
    sync_folder(kept.parent)
    _remove_unused(kept)
    return kept


def _remove_unused(kept: Path) -> None:
    """Remove what nobody has used for long; another process may do the same at this moment."""
    oldest = time.time() - UNUSED_DAYS * 86400
    for old in kept.parent.iterdir():
        if old.suffix in (".so", ".tmp") and old != kept:
            with suppress(OSError):
                if old.lstat().st_mtime < oldest:
                    old.unlink()
