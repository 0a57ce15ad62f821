# SPDX-License-Identifier: Apache-2.0
"""train-gan [COMMAND] --config config.yml [key=value ...]"""

from __future__ import annotations

import argparse
import importlib
import shlex
import sys
from pathlib import Path

from .commands import COMMANDS, DEFAULT
from .errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, UserError


def overview() -> str:
    rows = "\n".join(f"  {name:<8} {help}" for name, help in COMMANDS.items())
    usage = "usage: train-gan [COMMAND] [ARGUMENT ...], such as: train-gan data=FOLDER run_dir=FOLDER"
    return f"{usage}\n\ncommands:\n{rows}\n\n`train-gan COMMAND --help` says more."


def main(arguments: list[str] | None = None) -> int:
    """The program; returns 0 for done, 1 for failed, 2 for a wrong configuration or command line."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] in (["-h"], ["--help"]):
        print(overview())
        return 0
    # `train-gan --config f.yml` and `train-gan steps=3 --config f.yml` train.
    named = bool(words) and not words[0].startswith("-") and "=" not in words[0]
    name = words.pop(0) if named else DEFAULT
    if name not in COMMANDS:
        meant = f"; to train on it: data={shlex.quote(name)}" if Path(name).is_dir() else ""
        return complain(f"{name!r} is not a command; commands: {', '.join(COMMANDS)}{meant}", EXIT_USAGE)
    try:
        command = importlib.import_module(f"{__package__}.commands.{name}")
        parser = argparse.ArgumentParser(f"train-gan {name}", description=command.__doc__, allow_abbrev=False)
        command.add_arguments(parser)
        return command.run(parser.parse_intermixed_args(words))
    except UserError as error:
        # A data worker's error comes with its traceback; what follows the class is the message.
        own = str(error).split(f"{type(error).__name__}: ")[-1].strip()
        return complain(own, error.exit_code)
    except ImportError as error:
        return complain(f"a library is missing: {error}; install gan_trainer with its dependencies", EXIT_FAILED)
    except OSError as error:
        return complain(f"{error.filename or 'a file'}: {error.strerror or error}", EXIT_FAILED)
    except KeyboardInterrupt:
        return complain("interrupted; what came after the last checkpoint is lost", EXIT_INTERRUPTED)


def complain(error: object, code: int) -> int:
    for line in str(error).splitlines():
        print(f"train-gan: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
