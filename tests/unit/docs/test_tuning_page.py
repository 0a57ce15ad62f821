"""docs/tuning.md says what the table of settings says."""

from __future__ import annotations

from pathlib import Path

import yaml
from conftest import REPOSITORY
from module_files import load_file

tuning_page = load_file("tools/tuning.py")


def test_the_page_is_what_the_table_says() -> None:
    assert tuning_page.PAGE.read_text() == tuning_page.page(tuning_page.CATALOGUE), "run `make docs`"


def test_a_changed_reason_is_drift() -> None:
    first, *rest = tuning_page.CATALOGUE
    assert tuning_page.PAGE.read_text() != tuning_page.page((first._replace(reason="another"), *rest))


SERVICES = yaml.safe_load((REPOSITORY / "roles/model_trainer/tasks/service.yml").read_text())


def test_names_in_lower_and_higher_layer_are_equal_by_default() -> None:
    """system_tuning reads no variable of model_trainer; so their defaults must agree."""
    lower, higher = (
        yaml.safe_load((REPOSITORY / f"roles/{role}/defaults/main.yml").read_text())
        for role in ("system_tuning", "model_trainer")
    )
    assert lower["system_tuning_data_dir"] == higher["model_trainer_data_dir"]
    entries = next(task["gpuwright.node.files"]["entries"] for task in SERVICES if "gpuwright.node.files" in task)
    services = [Path(entry["path"]).name for entry in entries if entry.get("state") != "directory"]
    assert sorted(lower["system_tuning_limits_units"]) == sorted(services)
