"""What a reader of a page types, and what the page says is printed: fenced blocks, and commands within sentences."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
# What begins with one of these is typed into a shell.
PROGRAMS = (
    *("ansible-playbook", "make", "pip", "openssl", "source", "ssh", "ssh-copy-id", "mkdir", "cp", "chmod", "cd"),
    *("scp", "sudo", "systemctl", "journalctl", "gpu-run", "gpu-doctor", "gpu-tune", "train-gan"),
)
VENV = "/opt/gpuwright/venvs/current/bin/"


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; `line` is that of its first line, from 1."""

    language: str
    lines: tuple[str, ...]
    line: int

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def commands(self) -> list[str]:
        """What is typed, without the remark behind it; none where the block shows what is printed, or a file."""
        typed = [re.sub(r" {2,}#.*", "", line).strip() for line in self.lines]
        return typed if not self.language and all(map(is_command, typed)) else []


def is_command(text: str) -> bool:
    """Whether a program and perhaps its arguments stand there."""
    first = re.sub(r"^([A-Z]+=\S+ )+", "", text).split(" ", 1)[0]
    return first.removeprefix(VENV) in PROGRAMS


def blocks(page: str) -> list[Block]:
    found: list[Block] = []
    inside: list[str] | None = None
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("```"):
            if inside is None:
                language, inside, start = line[3:].strip(), [], number + 1
            else:
                found.append(Block(language, tuple(inside), start))
                inside = None
        elif inside is not None:
            inside.append(line)
    return found


def spans(page: str) -> list[str]:
    """Texts in back quotes outside of fenced blocks, each once; one may be broken over two lines."""
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    return list(dict.fromkeys(" ".join(text.split()) for text in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose)))


def commands(page: str) -> list[str]:
    """All that a reader types, in order, each once: the lines of blocks, then what stands in sentences."""
    typed = [command for block in blocks(page) for command in block.commands]
    return list(dict.fromkeys([*typed, *filter(is_command, spans(page))]))
