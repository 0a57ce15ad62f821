#!/bin/sh
# tuned 2.20.0-1 (Debian 12) and 2.25.1-1 (Debian 13) look for an administrator's profiles in different folders.
#
# /etc/tuned/NAME/tuned.conf, which all documentation of ten years names, is found by the older one. The newer one looks
# below /etc/tuned/profiles alone, by default: after an upgrade the own profile is simply unknown.
#
# Seen: the old place is found by 2.20 alone, the new place by 2.25 alone.
# Why it matters: a node that is upgraded loses its tuning, and tuned-adm then names no profile as active.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
archive=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' 2>/dev/null | awk '$1 ~ /debian\/?$/ && $2 !~ /security/ { print $1; exit }')
[ -n "$archive" ] || { echo "apt of this machine has no archive of Debian" >&2; exit 2; }
[ -e "$keyring" ] || { echo "the package debian-archive-keyring is missing" >&2; exit 2; }
find_profile() (
    cd "$work/$1"
    for place in etc/tuned/mine etc/tuned/profiles/mine; do
        mkdir -p "$place" && printf '[main]\nsummary=mine\n' >"$place/tuned.conf"
        python3 -c 'import sys
tree = sys.argv[1]
sys.path.insert(0, tree + "/usr/lib/python3/dist-packages")
from tuned import consts
from tuned.profiles.locator import Locator
folders = getattr(consts, "LOAD_DIRECTORIES", None) or consts.CFG_DEF_PROFILE_DIRS
print("found" if Locator([tree + folder for folder in folders]).get_config("mine") else "unknown")' "$PWD"
        rm -r "$place"
    done
)
for suite in bookworm trixie; do
    mkdir -p "$work/apt-$suite/lists/partial" "$work/apt-$suite/archives/partial" "$work/$suite"
    printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$archive" "$suite" >"$work/apt-$suite/sources.list"
    touch "$work/apt-$suite/status"
    set -- -o Dir::Etc::SourceList="$work/apt-$suite/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State="$work/apt-$suite" -o Dir::State::Lists="$work/apt-$suite/lists" \
        -o Dir::State::Status="$work/apt-$suite/status" -o Dir::Cache="$work/apt-$suite" \
        -o APT::Sandbox::User= -o Debug::NoLocking=true
    version=2.20.0-1
    [ "$suite" = bookworm ] || version=2.25.1-1
    (cd "$work/$suite" && apt-get "$@" -qq update && apt-get "$@" -qq download "tuned=$version") >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 2; }
    dpkg -x "$work/$suite"/tuned_*.deb "$work/$suite"
done
seen="$(find_profile bookworm | tr '\n' ' ')/ $(find_profile trixie | tr '\n' ' ')"
[ "$seen" = "found unknown / unknown found " ] || { echo "seen now: $seen" >&2; exit 1; }
