# SPDX-License-Identifier: Apache-2.0
"""gpu-doctor's options that write a bundle or judge one; their code is loaded only if one of them is used."""

import argparse
import os
import sys
from typing import Callable

from ..verdict.report import Record

USAGE_ERROR = 2
NOT_DONE = 3
BUNDLE = (
    "write FILE (.tar.gz, readable only by its owner) with report, raw answers of the driver, kernel log and packages, "
    "names and serial numbers masked; without FILE, a name made from host and time"
)
UNMASKED = "with --bundle: leave names, addresses and serial numbers as they are"
REPLAY = "judge a bundle, or saved answers of nvidia-smi -q -x and kernel logs, also a folder of them, on any machine"
# Options that make no sense together with a file that is written or read.
ALONE = ("nagios", "prom", "gate", "explain", "record")


def add_file_options(parser: argparse.ArgumentParser) -> None:
    """Add --bundle, --unmasked and --replay."""
    parser.add_argument("--bundle", metavar="FILE", nargs="?", const="", help=BUNDLE)
    parser.add_argument("--unmasked", action="store_true", help=UNMASKED)
    parser.add_argument("--replay", metavar="PATH", help=REPLAY)


def refuse(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """End with a usage error if the options contradict each other."""
    if options.unmasked and options.bundle is None:
        parser.error("--unmasked: only with --bundle")
    if options.bundle is not None and options.replay is not None:
        parser.error("--bundle and --replay: only one of them")
    if options.bundle is None and options.replay is None:
        return
    name = "--bundle" if options.replay is None else "--replay"
    others = ALONE + (("json",) if options.replay is None else ("expectations",))
    for other in others:
        if getattr(options, other, None):
            parser.error(f"{name} --{other}: only one of them")


def replay_option(options: argparse.Namespace) -> int:
    """--replay; returns the exit status."""
    from .replay.judge_files import replay

    if not os.path.exists(options.replay):
        print(f"gpu-doctor: {options.replay}: there is no such file or folder", file=sys.stderr)
        return USAGE_ERROR
    return replay(options.replay, options.json)


def bundle_option(options: argparse.Namespace, root: str, examine: Callable[[Record], Record]) -> int:
    """--bundle; returns the exit status. `examine(expectations)` returns the report of this moment."""
    from .bundle.make import make_bundle
    from .scan.examine import scan

    try:
        made = make_bundle(
            options.bundle,
            root,
            options.level,
            not options.unmasked,
            examine,
            options.expectations or "",
            (lambda: scan(root, options.level)) if options.scan else None,
        )
    except FileExistsError as error:
        print(f"gpu-doctor: {options.bundle or error.filename2}: {error.strerror}", file=sys.stderr)
        return USAGE_ERROR
    except OSError as error:
        print(f"gpu-doctor: the bundle cannot be written: {error.strerror or error}", file=sys.stderr)
        return NOT_DONE
    missing = [row for row in made.rows if not row["name"]]
    print(f"{made.path}: {len(made.rows) - len(missing)} files, {made.size / 1e6:.1f} MB")
    if missing:
        print("not in it (manifest.json says why): " + ", ".join(row["file"] for row in missing))
    if options.unmasked:
        print("nothing is masked: it names hosts, users, addresses and serial numbers")
    else:
        said = ", ".join(f"{number} {kind}" for kind, number in made.masked.items()) or "nothing found"
        print(f"masked: {said}; look through it before you pass it on")
    return 0
