# SPDX-License-Identifier: Apache-2.0
"""What each optimisation gains on this machine, beside what was reported for the A5 servers.

reported    the reported numbers, as data, and where they contradict published figures
timing      alternating rounds, medians, spread
training    measures one training run: images/s, memory, stability, on one GPU or several
newcomer    the plain loop from which the ladder starts
ladder      one optimisation after the other
tables      the three tables: precision, batch size, ladder
plots       the same as pictures
data        the stages of the data path
inference   latency and throughput of the generator
"""
