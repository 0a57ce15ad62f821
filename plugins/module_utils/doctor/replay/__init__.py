# SPDX-License-Identifier: Apache-2.0
"""`gpu-doctor --replay`: saved answers judged on any machine."""
