#!/bin/sh
# apt 2.6.1 (Debian 12) leaves configured sources out of `apt-get indextargets` where a component has no package yet.
#
# The command lists "the index targets of the configured sources"; its rows have options of the Release file, such as the origin. Once
# an update has read the Release file, a component without an index in it has no row any more, though a file configures it. With
# --no-release-info, which leaves out the origin, the row is there again.
#
# Seen: main alone; with --no-release-info, main and contrib. The suite is a made one, with packages in main only.
# Why it matters: a program that adds a component "if no source has it" configures it a second time, of which apt warns at every
# update. A young release's security suite is such a suite.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get -qq download apt=2.6.1 libapt-pkg6.0=2.6.1 >said 2>&1 || { cat said >&2; exit 2; }
for package in ./*.deb; do dpkg -x "$package" root; done
mkdir -p suite/dists/young/main/binary-amd64 state/lists/partial cache/archives/partial etc
printf 'Package: hello\nVersion: 1\nArchitecture: amd64\nMaintainer: a <a@example.org>\nDescription: x\nFilename: hello.deb\nSize: 1\nSHA256: %064d\n' 0 \
    >suite/dists/young/main/binary-amd64/Packages
cd suite/dists/young
{
    printf 'Origin: Example\nSuite: young\nCodename: young\nArchitectures: amd64\nComponents: main contrib\nDate: %s\nSHA256:\n' "$(LC_ALL=C date -u '+%a, %d %b %Y %T UTC')"
    printf ' %s %s main/binary-amd64/Packages\n' "$(sha256sum <main/binary-amd64/Packages | cut -d' ' -f1)" "$(wc -c <main/binary-amd64/Packages)"
} >Release
cd "$work"
echo "deb [trusted=yes arch=amd64] file:$work/suite young main contrib" >sources.list
LD_LIBRARY_PATH=$(echo "$work"/root/usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH LC_ALL=C
ask() {
    root/usr/bin/apt-get -qq -o Dir::Etc="$work/etc" -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=- \
        -o Dir::State="$work/state" -o Dir::Cache="$work/cache" -o Dir::Bin::Methods="$work/root/usr/lib/apt/methods" \
        -o APT::Sandbox::User="$(id -un)" -o APT::Architecture=amd64 -o Dir::State::Status=/dev/null "$@"
}
ask update >said 2>&1 || { cat said >&2; exit 2; }
components() { ask indextargets "$@" --format '$(COMPONENT)' 'Created-By: Packages' | sort -u | tr '\n' ' '; }
seen="$(components); $(components --no-release-info)"
[ "$seen" = "main ; contrib main " ] || { echo "seen now: $seen" >&2; exit 1; }
