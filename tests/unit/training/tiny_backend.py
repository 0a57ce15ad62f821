"""Build backend of a package with one module, for tests that install with pip and have no network."""

from __future__ import annotations

import zipfile

WORD = "trainer"
# The package that the roles look for, with another module: this one needs no PyTorch.
INFO = "gan_trainer-1.0.dist-info"


def build_wheel(wheel_directory: str, config_settings: object = None, metadata_directory: object = None) -> str:
    """A wheel with the module `tiny_trainer`, whose `word` is WORD."""
    name = "gan_trainer-1.0-py3-none-any.whl"
    with zipfile.ZipFile(f"{wheel_directory}/{name}", "w") as wheel:
        wheel.writestr("tiny_trainer.py", f"word = {WORD!r}\n")
        wheel.writestr(f"{INFO}/METADATA", "Metadata-Version: 2.1\nName: gan-trainer\nVersion: 1.0\n")
        wheel.writestr(f"{INFO}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{INFO}/RECORD", "")
    return name
