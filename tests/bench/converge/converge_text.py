"""The words of docs/benchmarks/converge.md that no measurement changes."""

HEAD = """# Benchmark: what a run costs

Written by `make bench-converge`; do not edit. It is made from the figures in [converge.json](converge.json).

The ways take turns, and another one begins in each round. A figure is the median of its runs, and behind it the
interval of that median: with fewer than six runs, all of them. Where a step ran only once, there is no interval, and
the ways are not compared by it. Faster and slower are said where the whole interval of the paired ratios lies on one
side of 1, equal where both ends lie within 5 % of it; else it is inconclusive. A ratio is the other way's cost over
ours, in seconds of wall or of CPU time.

Wall time depends on what else the machine does: controller, hosts and mirror share its cores, and where the load
average is above the number of cores, so do other programs. CPU seconds change less with the load, and counts do not.
"""

WAYS = """## The ways

* **bare script**: `tests/bench/converge/bare.sh`, sent with its files over one ssh call and run as root. The same
  packages in one transaction, the same files, units and account, the environment from the same wheels with hashes. It
  plans nothing, records nothing, takes no lock, does not reboot, and verifies nothing. This is the floor.
* **stock role**: `tests/bench/converge/stock`, some 65 tasks that do the same work in the usual style: a task for each
  package, `copy` and `file` with loops, `systemd` for each unit, facts gathered, pipelining on. No reboot and no
  verification either.
* **stock role, mitogen**: the same role under mitogen 0.3.54 (`requirements.txt` beside it, with its hash).
* **gpuwright**: `site.yml` of this checkout, with its plan, first record, lock, reboot, smoke test and verification.
  Its first run begins with an empty `ANSIBLE_HOME`, so that nothing is left of an earlier one.

The hosts are containers of the test fleet, stand-ins of RHEL 8 ([what is simulated](../../tests/fleet/README.md)): a
reboot takes a second or two, and NVIDIA's packages are small, so that neither download nor DKMS hides what a way adds.
Ratios to the bare script are higher here than on a server, where the same packages take minutes.

* *tasks*: results that are not "skipped", those on the controller included. *modules*: executions on the host as
  `tests/executions` counts them, `raw` and `fetch` included; *calls* leaves these two out. A `copy` counts once,
  although Ansible sends up to three modules for it. Nobody counts the release of a lock that a role took, one more
  call at the end; a run that enters no role has none.
* *MB sent*: what the host's interface received, without what its mirror sent.
* *controller*: user and system time of a control group that has the run and its ssh connections. A run starts without
  connections, so that each pays for logging in.
* *target*: the control group of the host's container, checks by its timers included; lost is what falls between the
  last look (five times a second) and a reboot.
* *memory*: the most anonymous memory that the run's processes had at once, each page counted once.
"""

ENTERED = """Not every no-op run of gpuwright was short: at least one entered roles and changed nothing. That is what a
run does where the node's last check, which its timer starts every five minutes, was neither PASS nor WARN, and a check
that has too little of a busy machine may end as UNKNOWN. Why these runs did was not examined.
"""

REAL_TEXT = """\
With the stand-ins above, a first run takes as long as what a way adds. Here the packages are those of a server:
NVIDIA's driver, whose module DKMS builds, and the CUDA toolkit, from Debian 12's own archive, downloaded by each run.
The bare script is `tests/bench/converge/bare_debian.sh`. Our run has its plan, lock, reboot and verification, and its
smoke test is subtracted from its time in the goals; as the module is for a kernel of Debian and the container has
another one, the verification ends with FAIL.
"""
STUB = """\
Two cores have no room for 100 servers, so these are addresses of one container with one sshd: each is an ssh
connection, a login, sudo and a shell of its own, and what the controller sends is what it sends to servers. **The
answers come from a stub**: in place of Python, a shell script (`tests/bench/converge/target/replay`) reads the module
and prints what a finished host answered to it in a recorded run. So these runs say what a no-op costs the controller,
and how long it takes if nodes answered at once; what a real node computes (some seconds, on its own cores) is in the
tables above. Here the stub, sshd and sudo share the controller's cores, and their CPU time stands apart.

The hosts' sshd agrees on keys as RHEL 8's OpenSSH 8.0 does. sntrup761, which OpenSSH 9.0 to 9.9 prefers, cost the
client 0.09 CPU s more for each connection here: with it, three runs of commit b8347597 took 27.3 s of wall and 0.38
CPU s of the controller for each endpoint.
"""

TRIED = """## What was tried and not used

* **mitogen** 0.3.54 works with ansible-core 2.16.19 for the stock role, which is measured with it above. One no-op run
  of gpuwright under it, tried by hand and not measured, ended with PASS; an earlier state (commit 06363b1) had stopped
  in preflight with `No module named 'ansible.module_utils.gpuwright.bounded'`. First runs, reboots, refusals and lost
  connections under it were not tried, and as an option it would have to hold under the whole test suite. A run that
  enters no role executes three modules, so mitogen could save on first runs most. Kubespray deprecated it (kubespray
  #8147) and later removed it.
* **Strategy free** lets each host go on by itself. In a pilot with equal hosts (10 tasks; 10 and 50 hosts on 2 cores,
  ansible-core 2.19) it took 102 s in place of 107 s at 50 hosts and 23 s in place of 20 s at 10. No public measurement
  of a gain was found. It was not measured again here: a run of gpuwright ends with one table of all hosts, and a
  problem on one may leave out others (`preflight_on_problem: fleet`), which both need the hosts side by side.
* **A Python of pyenv**, as pyenv builds it unless told otherwise, lacks what a distribution's is compiled with
  (profiles, and calls that go through no table). A playbook of one task took 1.03 s with it and 0.60 s with Debian's
  3.11, so `make venv` prefers the latter. With such a Python a controller pays a fifth to a third more.
* **`gc.freeze()`** before the workers are forked, and a higher threshold of the garbage collector: 34.2 CPU s in place
  of 34.9 for 20 endpoints (medians of three pairs), 172 in place of 174 for 100: less than runs differ.
* **`jinja2_native`** spares the writing and parsing of every list and dictionary that a template gives, but makes
  numbers of texts that look like them, such as the driver's branch. Instead, large values go through no template.
* **Pull** (`ansible-pull` on each node) needs no controller, but Ansible, the repository and its secrets on every node,
  and nobody sees the fleet's verdicts in one place. It is the choice for fleets that outgrow a controller, below.
"""

PAPER = """## 1,000 and 10,000 hosts, on paper

Nothing in this part was measured with so many hosts. The controller's CPU seconds of a no-op are those of 100 endpoints
above, times the hosts, and the minutes are these over the cores, if all of them are busy throughout.

{table}
* **Forks**: each is a process of the controller. AWX's own rule is 100 MB and a quarter of a core for a fork; where
  the cores are the limit, more forks gain little (5 to 50 forks: 17 % less wall time in the pilot on 2 cores).
* **Batches** (`playbooks/rollout.yml`): a first run of 1,000 hosts in batches of 100 takes ten times one batch. The
  batch bounds what a bad change reaches and what the controller holds in memory; it does not change the CPU seconds.
* **Mirror**: a first run fetches about 4.5 GB (driver, toolkit, PyTorch with CUDA). N hosts in a window of W seconds
  need N x 4.5 GB / W: the last column has an hour. 10,000 hosts in an hour are 100 Gbit/s, so mirrors in each rack or
  wider windows; a no-op fetches nothing.
* **Which engine takes over**: up to about 1,000 hosts one controller with 8 or more cores, or AWX with
  several execution nodes, which slices the inventory ([AWX](../awx.md)). Beyond, `ansible-pull` by a timer with a
  random delay (`RandomizedDelaySec=` as long as the window), whose cost for each node does not depend on N: the
  checkout and the mirror are all that is shared, and the nodes' own check timers report drift between runs. For nodes
  that come and go, baked images ([images](../images.md)): a start then costs a boot and a verification, no download.
* Between runs nothing has to be pushed: each node checks itself every five minutes and exports the verdict
  ([monitoring](../monitoring.md)), so a fleet is asked by its metrics and not by a run.
"""
