# SPDX-License-Identifier: Apache-2.0
"""How a check comes to its status, what it is held against, and the record that it becomes part of."""
