# SPDX-License-Identifier: Apache-2.0
"""Check `waivers.valid`, and what people have decided about findings."""
