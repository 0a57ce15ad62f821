"""Write roles/*/README.md from the argument specs (`make docs`). tests/unit/docs/test_role_readme.py finds drift."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
ROLES = REPOSITORY / "roles"
# Roles that only other roles use; their callers are read from the tasks.
INTERNAL = ("rollout", "system_busy", "system_packages", "system_reboot", "system_repository", "system_version_lock")
ALONE = """\
Used alone, it has the role preflight read the host and decide the plan first, once in a run. Put
`gpuwright.node.operator_lock` before it where somebody else could change the host at the same time.
"""
ENTRIES = ("For other roles of this collection, by `tasks_from`.", "For any play, by `tasks_from`.")
# Roles with one entry point for before the work and one for after it; they need no plan.
AROUND = ("drain",)


def page(role: Path) -> str:
    """The README of a role: its purpose, how it is used, its variables and entry points."""
    entries = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]
    main = entries["main"]
    lines = [f"# {role.name}", "", f"{main['short_description'].rstrip('.')}.", ""]
    if role.name in INTERNAL:
        lines += [f"Internal: for {', '.join(callers(role.name))}; not for playbooks of your own.", ""]
    elif role.name in AROUND:
        steps = [name for name in entries if name != "main"]
        lines += ["```yaml", "tasks:"]
        for number, step in enumerate(steps):
            lines += ["  # the work"] if number else []
            lines += [
                "  - ansible.builtin.include_role:",
                f"      name: gpuwright.node.{role.name}",
                f"      tasks_from: {step}",
            ]
        lines += ["```", ""]
    else:
        lines += ["```yaml", "roles:", f"  - gpuwright.node.{role.name}", "```", ""]
        if role.name not in ("preflight", "operator_lock", "kickstart", "accept", "upgrade", "rollback", "patch"):
            lines += [ALONE]
    if main.get("options"):
        lines += ["## Variables", "", "| variable | type | default | what it does |", "|---|---|---|---|"]
        lines += [row(name, option) for name, option in main["options"].items()] + [""]
    others = {name: entry for name, entry in entries.items() if name != "main"}
    if others:
        lines += ["## Entry points", "", ENTRIES[role.name in AROUND], ""]
        lines += [f"* `{name}`: {entry['short_description'].rstrip('.')}." for name, entry in others.items()] + [""]
    return "\n".join([*lines, "Made from `meta/argument_specs.yml` by `make docs`; do not edit it.", ""])


def callers(name: str) -> list[str]:
    """Roles with a task that includes this one, and playbooks that do."""
    word = f"name: gpuwright.node.{name}\n"
    roles = {file.parts[-3] for file in ROLES.glob("*/tasks/*.yml") if word in file.read_text()} - {name}
    return sorted(roles) or sorted(
        f"playbooks/{file.name}" for file in REPOSITORY.glob("playbooks/*.yml") if word in file.read_text()
    )


def row(name: str, option: dict[str, Any]) -> str:
    default = yaml.safe_dump(option.get("default"), default_flow_style=True, width=10_000).strip().removesuffix("\n...")
    kind = option["type"] + (f" of {option['elements']}" if "elements" in option else "")
    choices = option.get("choices")
    text = " ".join(str(option["description"]).split())
    if choices:
        text += " One of " + ", ".join(f"`{choice}`" if choice != "" else "empty" for choice in choices) + "."
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in (f"`{name}`", kind, f"`{default}`", text)) + " |"


def main() -> None:
    for role in sorted(path for path in ROLES.iterdir() if path.is_dir()):
        (role / "README.md").write_text(page(role))


if __name__ == "__main__":
    main()
