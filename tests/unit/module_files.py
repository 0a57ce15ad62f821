"""Programs and plug-ins that lie in files of their own, as modules."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

REPOSITORY = Path(__file__).resolve().parents[2]


def load_file(path: str | Path) -> ModuleType:
    """The Python file as a module that nobody else sees, whatever its ending; a relative path is the repository's."""
    loader = SourceFileLoader(Path(path).stem.replace("-", "_"), str(REPOSITORY / path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
