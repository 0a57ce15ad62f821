# SPDX-License-Identifier: Apache-2.0
"""Networks, their losses and penalties: no step, no file, no process."""
