"""`python tests/faults/interrupt --help` says what it does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from interrupt.cli import main

if __name__ == "__main__":
    sys.exit(main())
