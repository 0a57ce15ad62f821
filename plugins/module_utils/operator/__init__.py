# SPDX-License-Identifier: Apache-2.0
"""The lock that lets one run at a time change a host."""
