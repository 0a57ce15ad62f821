# SPDX-License-Identifier: Apache-2.0
"""Cards: which one a GPU is, what may be expected of it, and who may hold it."""
