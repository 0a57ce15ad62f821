#!/bin/sh
# The package and file work of a first run, by hand: sent with its files over one ssh call, and run as root.
# A second call of it asks rpm and cmp, and changes nothing.
set -eu
umask 022
cd "$(dirname "$0")"
. ./values.sh
changed=

put() {
    cmp -s "files$1" "$1" && return 0
    mkdir -p "${1%/*}"
    cp "files$1" "$1"
    case $1 in */bin/*) chmod 755 "$1" ;; *) chmod 644 "$1" ;; esac
    changed="$changed $1"
}

# Repositories with their keys, then everything in one transaction; asked of rpm first, which is 30 times cheaper than dnf.
for path in $PATHS; do
    case $path in
        */rpm-gpg/*) put "$path"; case $changed in *"$path"*) rpm --import "$path" ;; esac ;;
        */yum.repos.d/*) put "$path" ;;
    esac
done
if ! rpm -q $PACKAGES > /dev/null; then
    dnf -q -y module enable "nvidia-driver:$STREAM"
    dnf -q -y install $PACKAGES
fi

# The account, and folders for data and runs.
getent passwd trainer > /dev/null || {
    groupadd --system trainer
    useradd --system --gid trainer --shell /sbin/nologin --create-home --home-dir /var/lib/gpuwright-trainer --comment "$COMMENT" trainer
    usermod --lock trainer
}
[ -d /srv/gan ] || mkdir -p /srv/gan
[ -d /srv/gan/runs ] || install -d -o trainer -g trainer -m 2770 /srv/gan/data /srv/gan/runs
mkdir -p /etc/gpuwright/jobs /var/lib/gpuwright /var/lib/node_exporter/textfile_collector

# The library, compiled for the Python that runs it, then all other files and links.
if ! diff -rq --exclude=__pycache__ files/usr/local/lib/gpuwright /usr/local/lib/gpuwright > /dev/null 2>&1; then
    mkdir -p /usr/local/lib/gpuwright
    cp -r files/usr/local/lib/gpuwright/. /usr/local/lib/gpuwright/
    /usr/libexec/platform-python -m compileall -q /usr/local/lib/gpuwright
fi
for path in $PATHS; do put "$path"; done
for name in gpu-doctor gpu-job gpu-run gpu-tune; do
    [ "$(readlink "/usr/bin/$name")" = "/usr/local/bin/$name" ] || ln -sfn "/usr/local/bin/$name" "/usr/bin/$name"
done
[ -e /usr/local/cuda ] || ln -sfn /usr/local/cuda-12.9 /usr/local/cuda

# PyTorch from a lock file with hashes, and the trainer.
if ! cmp -s files/venv/gpuwright.json "$VENV/gpuwright.json"; then
    rm -rf "$VENV"
    python3.11 -m venv "$VENV"
    cp files/venv/lock.txt files/venv/*.whl files/venv/gan_trainer.digest "$VENV/"
    "$VENV/bin/pip" install -q --disable-pip-version-check --no-cache-dir --only-binary :all: --require-hashes --no-deps --no-index \
        --find-links /srv/gpuwright/wheelhouse -r "$VENV/lock.txt"
    "$VENV/bin/pip" check > /dev/null
    "$VENV/bin/pip" install -q --disable-pip-version-check --no-cache-dir --no-deps --no-index "$VENV"/*.whl
    cp files/venv/gpuwright.json "$VENV/"
fi
[ "$(readlink "${VENV%/*}/current")" = "$VENV" ] || ln -sfn "$VENV" "${VENV%/*}/current"

# Services: systemd is told only of what has changed.
case $changed in
    *systemd*)
        systemctl daemon-reload
        systemctl -q enable gpuwright-devices gpuwright-boot-check nvidia-persistenced
        systemctl -q enable --now gpuwright-tuning gpuwright-check.timer gpuwright-check.path irqbalance || true
        case $changed in *check.timer*) systemctl restart gpuwright-check.timer ;; esac
        ;;
esac
