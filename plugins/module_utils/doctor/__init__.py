# SPDX-License-Identifier: Apache-2.0
"""gpu-doctor: the checks run on the node itself, and the forms in which it says what they found."""
