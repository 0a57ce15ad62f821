# SPDX-License-Identifier: Apache-2.0
"""`gpu-doctor --bundle`: a node's state in one masked file."""
