# SPDX-License-Identifier: Apache-2.0
"""What `train-gan new` copies: a package with a task and data of its own. NAME stands for its name."""
