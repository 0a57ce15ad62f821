# SPDX-License-Identifier: Apache-2.0
"""Secure Boot: what the firmware says, the key with which DKMS signs, and its enrolment."""
