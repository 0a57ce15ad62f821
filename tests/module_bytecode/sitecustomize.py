"""Modules that Ansible sends to a host, compiled once for all runs of the tests instead of once for each task.

Ansible packs a module's libraries as source into an archive, and Python compiles what it imports from there in every
task: a third of what a task on localhost costs. Programs that tests start find this file by PYTHONPATH, and the folder
to keep the compiled modules in by MODULE_BYTECODE. Python 3.6 reads archives in C and goes on as ever.
"""

import os
import sys
import zipimport

FOLDER = os.environ.get("MODULE_BYTECODE", "")


def remember(compiled, folder):
    """The same function of (path, source), whose answers are kept by the SHA-256 of the source."""
    import _imp
    import hashlib
    import marshal

    def compiled_once(path, source):
        name = f"{hashlib.sha256(source).hexdigest()}.{sys.implementation.cache_tag}"
        kept = os.path.join(folder, name)
        try:
            with open(kept, "rb") as file:
                code = marshal.loads(file.read())
        except OSError:
            code = compiled(path, source)
            # Whoever may not write there, such as an ordinary user, compiles as ever.
            try:
                with open(f"{kept}.{os.getpid()}", "wb") as file:
                    file.write(marshal.dumps(code))
                os.rename(file.name, kept)
            except OSError:
                pass
            return code
        # An archive's name is another one in every task; tracebacks and warnings name it.
        _imp._fix_co_filename(code, path)
        return code

    return compiled_once


if FOLDER and hasattr(zipimport, "_compile_source"):
    zipimport._compile_source = remember(zipimport._compile_source, FOLDER)
