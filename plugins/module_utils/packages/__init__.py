# SPDX-License-Identifier: Apache-2.0
"""Packages as dnf, rpm and apt tell of them, their repositories and keys."""
