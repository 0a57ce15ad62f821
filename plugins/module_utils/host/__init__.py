# SPDX-License-Identifier: Apache-2.0
"""What every part needs of a host: files below a root, programs under a deadline, accounts, processes."""
