# SPDX-License-Identifier: Apache-2.0
"""What runs on the controller only. Here, so that it is the first that is loaded of it: where compiled files are."""

from .compiled import use

use()
