"""tests/gpu/evidence: what each part of the project does on a real GPU, within minutes, on one page.

places     where the parts of the checkout are, and the library under the name that its modules import
supervise  one part as a process: its share of the time, everything that it started ended with it
context    what a part gets: its time, the interpreter with PyTorch, programs with deadlines
parts      the parts in the order of their value, and what each needs
host       parts about the host: scan, plan, compilers        gpu        parts about the card
launcher   gpu-run beside numactl and bare                    training   parts about the trainer
goals      the promises, and whether the figures bear them out
page       the page, from the results alone                   drawing    its plots
program    the command line, and the order of things
"""
