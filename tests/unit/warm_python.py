"""A Python that has imported what programs of the tests need, and forks for each of them.

More than half of what such a program costs are its imports, the same ones each time. The child is in all else as if
it had been started: arguments, environment, folder, umask, user, input and output are those of the caller. What a
program imports at its top, the server imports before it forks for it.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# Under each Python of a node, so in the dialect of 3.6. An order is a line of JSON; two lines answer it: the number of
# the process, and how it ended.
SERVER = r"""
import ast, json, os, signal, sys

imported = set()

# From 3.8 on a module's tree has a second part.
EXTRA = ([],) if sys.version_info >= (3, 8) else ()

def import_top(source):
    for node in ast.parse(source).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)) and getattr(node, "module", "") != "__future__":
            exec(compile(ast.Module([node], *EXTRA), "<imports>", "exec"), {"__name__": "imports"})

def given(word):
    # As Python finds it under this locale.
    return os.fsdecode(word.encode("utf-8", "surrogateescape"))

def prepared(order):
    os.setpgid(0, 0)
    for number, (path, flags) in enumerate((
        (order["stdin"], os.O_RDONLY), (order["stdout"], os.O_WRONLY), (order["stderr"], os.O_WRONLY)
    )):
        file = os.open(path, flags)
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = [
        open(number, mode, 1 if number == 2 else -1, old.encoding, old.errors, None, False)
        for number, mode, old in ((0, "r", sys.stdin), (1, "w", sys.stdout), (2, "w", sys.stderr))
    ]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(order["cwd"])
    os.umask(order["umask"])
    if order["user"] is not None:
        os.setgroups([])
        os.setgid(order["user"])
        os.setuid(order["user"])
    os.environ.clear()
    os.environ.update({given(name): given(value) for name, value in order["environment"].items()})
    sys.argv[:] = map(given, order["argv"])
    main = type(sys)("__main__")
    main.__file__ = sys.argv[0]
    sys.modules["__main__"] = main
    return compile(order["source"], sys.argv[0], "exec", dont_inherit=True), main.__dict__

def child(order):
    code = 0
    try:
        program, space = prepared(order)
        exec(program, space)
    except SystemExit as ended:
        code = 0 if ended.code is None else ended.code
        if not isinstance(code, int):
            sys.stderr.write("%s\n" % (code,))
            code = 1
    except BaseException:
        import traceback
        traceback.print_exc()
        code = 1
    try:
        import atexit
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:
        code = code or 120
    os._exit(code & 255)

for line in sys.stdin:
    order = json.loads(line)
    if order["source"] not in imported:
        imported.add(order["source"])
        try:
            import_top(order["source"])
        except Exception:
            pass
    number = os.fork()
    if not number:
        child(order)
    sys.stdout.write("%d\n" % number)
    sys.stdout.flush()
    state = os.waitpid(number, 0)[1]
    ended = -os.WTERMSIG(state) if os.WIFSIGNALED(state) else os.WEXITSTATUS(state)
    sys.stdout.write("%d\n" % ended)
    sys.stdout.flush()
"""


class WarmPython:
    """One server. words: the interpreter and its options; library: what is first in sys.path, or nothing."""

    def __init__(self, words: Sequence[str], library: str, environment: Mapping[str, str]) -> None:
        start = f"import sys; sys.path.insert(0, {library!r})\n" if library else ""
        self.folder = tempfile.TemporaryDirectory(prefix="warm-python-")
        command = [*words, "-c", start + SERVER]
        self.server = subprocess.Popen(
            command, env=dict(environment), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/"
        )
        # Answers that were read and not yet asked for.
        self.said = ""
        atexit.register(self.end)

    def end(self) -> None:
        atexit.unregister(self.end)
        assert self.server.stdin and self.server.stdout
        self.server.stdin.close()
        self.server.wait(60)
        self.server.stdout.close()
        self.folder.cleanup()

    def answer(self, timeout: float) -> int | None:
        output = self.server.stdout
        assert output
        end = time.monotonic() + timeout
        while "\n" not in self.said:
            if not select.select([output], [], [], max(0, end - time.monotonic()))[0]:
                return None
            found = os.read(output.fileno(), 4096)
            assert found, "the server has ended"
            self.said += found.decode()
        line, _, self.said = self.said.partition("\n")
        return int(line)

    def run(
        self,
        source: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        timeout: float = 60,
        cwd: str | Path = "/",
        user: int | None = None,
        umask: int = -1,
        input: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program's text; the first argument is its name. user: its id and its group's."""
        paths = {name: Path(self.folder.name, name) for name in ("stdin", "stdout", "stderr")}
        for path in paths.values():
            path.write_text("")
        if input is not None:
            paths["stdin"].write_text(input)
        if umask < 0:
            umask = os.umask(0)
            os.umask(umask)
        order = {
            "source": source, "argv": list(arguments), "environment": dict(environment), "cwd": str(cwd),
            "user": user, "umask": umask, **{name: str(path) for name, path in paths.items()},
        }  # fmt: skip
        assert self.server.stdin
        self.server.stdin.write(json.dumps(order) + "\n")
        self.server.stdin.flush()
        number = self.answer(60)
        assert number
        code = self.answer(timeout)
        if code is None:
            os.killpg(number, signal.SIGKILL)
            self.answer(60)
            raise subprocess.TimeoutExpired(list(arguments), timeout)
        said = [paths[name].read_text() for name in ("stdout", "stderr")]
        return subprocess.CompletedProcess(list(arguments), code, *said)


# The servers that were used last, each with 30 MB.
MOST = 6
_servers: dict[tuple, WarmPython] = {}


def warm_python(words: tuple[str, ...], library: str = "", program: str = "", **environment: str) -> WarmPython:
    """The server of these words, library and environment, for one program alone: another's imports could hide that it
    lacks one of its own."""
    key = (words, library, program, *sorted(environment.items()))
    server = _servers.pop(key, None) or WarmPython(words, library, environment)
    _servers[key] = server
    while len(_servers) > MOST:
        _servers.pop(next(iter(_servers))).end()
    return server
