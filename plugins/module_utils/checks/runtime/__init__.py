# SPDX-License-Identifier: Apache-2.0
"""Checks `runtime.*`: what trainings are started with."""
