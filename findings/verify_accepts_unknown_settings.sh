#!/bin/sh
# systemd-analyze verify of systemd 252 (Debian 12's package) ends with 0 for a unit with settings that it does not know.
#
# It says "Unknown key ..., ignoring" and counts the unit as good, as the service is then started without the setting.
#
# Seen: the line for MemoryZSwapWriteback=, a setting of systemd 256, and status 0.
# Why it matters: a check of units in CI or in a role that looks at the status alone lets pass what the older systemd of
# a node drops; its output has to be read.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get -qq download systemd libsystemd-shared libsystemd0 >said 2>&1 || { cat said >&2; exit 2; }
for package in *.deb; do dpkg -x "$package" root; done
LD_LIBRARY_PATH="$work/root/usr/lib/x86_64-linux-gnu/systemd:$work/root/usr/lib/x86_64-linux-gnu"
export LD_LIBRARY_PATH
analyze() { "$work/root/usr/bin/systemd-analyze" "$@"; }
case "$(analyze --version 2>&1 | head -1)" in "systemd 252 "*) ;; *) echo "this machine's apt has no systemd 252" >&2; exit 2 ;; esac
printf '[Service]\nExecStart=/bin/true\nMemoryZSwapWriteback=no\n' >one.service
status=0
analyze verify --man=no "$work/one.service" >said 2>&1 || status=$?
seen=$(grep -c "Unknown key.*MemoryZSwapWriteback.*ignoring" said) || true
[ "$status $seen" = "0 1" ] || { echo "seen now: status $status"; cat said; exit 1; } >&2
