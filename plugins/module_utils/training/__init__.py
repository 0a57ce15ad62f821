# SPDX-License-Identifier: Apache-2.0
"""The trainer's environment, its programs run as the trainer user, and what they measured."""
