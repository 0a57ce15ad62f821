# SPDX-License-Identifier: Apache-2.0
"""The checks, one folder for the first word of an id, with the readings that it alone needs."""
