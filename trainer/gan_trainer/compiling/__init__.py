# SPDX-License-Identifier: Apache-2.0
"""Whether code can be compiled where training runs, tried and not looked up: `python -m gan_trainer.compiling`.

torch.compile builds a C file with Python.h when it first meets a GPU, by Triton (triton/runtime/build.py); Inductor and
users' extensions build C++. Neither the wheels nor an import show whether that works: it takes a compiler, the headers
of this Python, libcuda.so.1 where ldconfig knows it, and a cache from which code may be mapped.
"""
