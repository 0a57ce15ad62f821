#!/bin/sh
# dkms 3.0.10-8+deb12u1 (Debian 12) ends with 0 when it is asked for the status of a module that it does not have.
#
# `dkms status -m nvidia -v 570.1` prints nothing and succeeds, as it does for a module that is there: the status of the
# program says nothing, only the words "installed" for the kernel in question do.
#
# Seen: status 0 and no output.
# Why it matters: `dkms status ... && modprobe nvidia`, a common line of provisioning scripts, holds for any node.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get -qq download dkms=3.0.10-8+deb12u1 >said 2>&1 || { cat said >&2; exit 2; }
dpkg -x dkms_*.deb root
mkdir tree source
status=0
seen=$(root/usr/sbin/dkms --dkmstree "$work/tree" --sourcetree "$work/source" status -m nvidia -v 570.1 2>&1) || status=$?
[ "$status:$seen" = "0:" ] || { echo "seen now: status $status, $seen" >&2; exit 1; }
