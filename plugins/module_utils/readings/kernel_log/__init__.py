# SPDX-License-Identifier: Apache-2.0
"""The kernel's log of this boot: its lines, the table of what they mean, and the events in them."""
