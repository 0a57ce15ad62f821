# SPDX-License-Identifier: Apache-2.0
"""What stands in the way of a plan on a host, before anything is changed."""
