# SPDX-License-Identifier: Apache-2.0
"""What is done with a trained generator: images, exports, the Fréchet inception distance."""
