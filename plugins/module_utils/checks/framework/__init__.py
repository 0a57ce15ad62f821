# SPDX-License-Identifier: Apache-2.0
"""Checks `framework.*`: the environment and what its Python can do."""
