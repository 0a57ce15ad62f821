# SPDX-License-Identifier: Apache-2.0
"""python -m gan_trainer.compiling"""

import sys

from .program import main

sys.exit(main())
