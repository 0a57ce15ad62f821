# SPDX-License-Identifier: Apache-2.0
"""Answers of nvidia-smi, read into values; every kind of no value has a name."""
