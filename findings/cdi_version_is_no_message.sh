#!/bin/sh
# podman 4.3.1+ds1-8+deb12u1 (Debian 12) calls a device of a CDI file of version 0.6.0 "unresolvable", not its version.
#
# It reads CDI files up to version 0.5.0 and leaves out a newer one in silence, so its devices are unknown. And `podman
# create` looks up no device at all: it succeeds with either file, and only init or start says so.
#
# Seen: create succeeds twice; init comes to the runtime, which is false here, with 0.5.0, and is "setting up CDI devices:
# unresolvable CDI devices" with 0.6.0.
# Why it matters: nvidia-ctk writes the version that its file needs, and the message leads to the device's name.
set -eu
if [ "${1:-}" = inside ]; then
    work=$2
    mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /dev/shm && mkdir -p /run/cdi "$work/files" || exit 2
    run() {
        "$work/root/usr/bin/podman" --root "$work/storage" --runroot /run/root --tmpdir /run/tmp --storage-driver vfs \
            --cgroup-manager cgroupfs --events-backend file --conmon "$work/root/usr/bin/conmon" --runtime /bin/false "$@"
    }
    for version in 0.5.0 0.6.0; do
        printf '{"cdiVersion": "%s", "kind": "example.com/device", "devices": [
            {"name": "one", "containerEdits": {"env": ["SEEN=1"]}}]}' "$version" >/run/cdi/device.json
        run create --network none --ulimit host --name "with-$version" --device example.com/device=one \
            --rootfs "$work/files" /bin/true >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }
        run init "with-$version" >"$work/init-$version" 2>&1 || true
    done
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && apt-get -qq download podman=4.3.1+ds1-8+deb12u1+b3 conmon) >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 2; }
for package in "$work"/*.deb; do dpkg -x "$package" "$work/root"; done
HOME="$work" "$work/root/usr/bin/podman" --version >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 2; }
unshare --user --map-root-user --mount true || { echo "this machine gives nobody a namespace of their own" >&2; exit 2; }
HOME="$work" CONTAINERS_CONF=/dev/null unshare --user --map-root-user --mount sh "$0" inside "$work"
if grep -q CDI "$work/init-0.5.0" || ! grep -q "runtime\|conmon" "$work/init-0.5.0" ||
    ! grep -q "setting up CDI devices: unresolvable CDI devices example.com/device=one" "$work/init-0.6.0"; then
    echo "seen now:" >&2
    cat "$work"/init-* >&2
    exit 1
fi
