# SPDX-License-Identifier: Apache-2.0
"""python -m gan_trainer.smoke"""

import sys

from .program import main

sys.exit(main())
