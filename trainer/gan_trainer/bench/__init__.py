# SPDX-License-Identifier: Apache-2.0
"""What each optimisation gives on this machine, beside what was reported of the A5 servers.

reported    the reported numbers, as data, and where they contradict published figures
timing      rounds that take turns, medians, spread
training    one training measured: images/s, memory, stability, on one GPU or several
newcomer    the plain loop that the ladder starts from
ladder      one optimisation after the other
tables      the three tables: precision, batch size, ladder
plots       the same as pictures
data        the stages of the data path
inference   latency and throughput of the generator
"""
