# SPDX-License-Identifier: Apache-2.0
"""Which versions fit a host: the search, its rules, and the words for its answers."""
