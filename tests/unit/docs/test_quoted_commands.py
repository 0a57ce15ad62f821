"""Commands that a message quotes in its prose: whoever pastes one is not root, and the shell has to understand it."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from conftest import REPOSITORY
from gpuwright.verdict.commands import AS_ROOT

# Programs that an ordinary user cannot use, and with which words one can.
ROOTS = {
    **dict.fromkeys((*AS_ROOT, "apt", "chronyc", "dmesg", "fagenrules", "fapolicyd-cli", "journalctl"), ""),
    **dict.fromkeys(("mokutil", "rpm", "subscription-manager", "useradd"), ""),
}
READS = (
    r"apt-get indextargets|dnf (repolist|module list|check)|chronyc (tracking|sources)|nvidia-smi|ls|rpm -q"
    r"|mokutil --(list|sb-state|generate-hash)|systemctl (status|cat|show|list)|ldconfig -p|sed -n|apt(-get|-cache) "
    r"policy"
)
QUOTED = re.compile(r"`([^`]+)`")


def texts(path: Path) -> Iterator[tuple[str, int]]:
    """Each text of a file that may reach a reader; what a program fills in is an X."""
    if path.suffix == ".yml":
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not line.lstrip().startswith("#"):
                yield re.sub(r"\{\{.*?\}\}|\{%.*?%\}", "X", line), number
        return
    tree = ast.parse(path.read_text())
    within = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    notes = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield (
                "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values),
                node.lineno,
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in within | notes:
            yield node.value, node.lineno


def quoted() -> dict[str, str]:
    """Command -> where it is quoted first."""
    found: dict[str, str] = {}
    for folder in ("plugins", "library", "roles", "playbooks"):
        for path in sorted((REPOSITORY / folder).rglob("*")):
            if path.suffix in (".py", ".yml") and path.is_file() and "/files/" not in str(path):
                for text, line in texts(path):
                    for command in QUOTED.findall(text):
                        found.setdefault(command, f"{path.relative_to(REPOSITORY)}:{line}")
    return {command: place for command, place in found.items() if re.match(r"[a-z][\w./-]* \S", command)}


FOUND = quoted()


def test_a_shell_understands_every_quoted_command() -> None:
    assert len(FOUND) > 80
    body = "\n".join(
        f"f{number}() {{\n{re.sub(r'<[^<>]*>|[{][^{}]*[}]', 'X', text)}\n}}" for number, text in enumerate(FOUND)
    )
    parsed = subprocess.run(["bash", "-n"], input=body, capture_output=True, text=True)
    assert parsed.stderr == ""


def test_what_only_root_can_do_is_quoted_with_sudo() -> None:
    wrong = [
        f"{place}: {command}"
        for command, place in FOUND.items()
        for part in re.split(r" && | \|\| |; | \| ", command)
        if part.split()[:1] and part.split()[0] in ROOTS and not re.match(READS, part)
    ]
    assert "\n".join(wrong) == ""


def test_a_file_of_roots_is_not_written_through_a_users_redirection() -> None:
    """`sudo echo x > /etc/y` opens the file as the user."""
    assert [
        f"{place}: {command}" for command, place in FOUND.items() if re.search(r"> */(etc|boot|usr)/", command)
    ] == []


BARE = re.compile(r"(?:Next: |Look at: |Debian: |Ubuntu: |(?<!C)\()((?:mv|dnf|apt-get|dmesg|rm) [-a-zX/][^;)\[]*)")


def test_what_only_root_can_do_has_sudo_without_quotes_too() -> None:
    """Of refusals; the commands of checks' actions get it where they are printed (verdict/commands.py)."""
    wrong = [
        f"{path.relative_to(REPOSITORY)}:{line}: {command}"
        for folder in ("plugins", "library", "roles")
        for path in sorted((REPOSITORY / folder).rglob("*"))
        if path.suffix in (".py", ".yml") and "/files/" not in str(path) and "/checks/" not in str(path)
        for text, line in texts(path)
        for command in BARE.findall(text)
        # Descriptions of parameters and modules name a mechanism, and nobody pastes it.
        if not re.match(READS, command) and not text.startswith("Run: ") and path.parent.name != "meta"
    ]
    assert wrong == []
