#!/bin/sh
# The package and file work of a first run on Debian, by hand: sent with its files over one ssh call, and run as root.
set -eu
umask 022
cd "$(dirname "$0")"
. ./values.sh
export DEBIAN_FRONTEND=noninteractive

# Sources first, then everything in one transaction, without what packages only recommend.
tar -C / -xf files.tar etc/apt
apt-get -q update
# shellcheck disable=SC2086
apt-get -q -y install --no-install-recommends $PACKAGES
# shellcheck disable=SC2086
[ -z "$HOLDS" ] || apt-mark hold $HOLDS

# The account, and folders for data and runs.
groupadd --system trainer
useradd --system --gid trainer --shell /usr/sbin/nologin --create-home --home-dir /var/lib/gpuwright-trainer --comment "$COMMENT" trainer
usermod --lock trainer
mkdir -p /srv/gan /var/lib/gpuwright /var/lib/node_exporter/textfile_collector
install -d -o trainer -g trainer -m 2770 /srv/gan/data /srv/gan/runs

# The library, compiled for the Python that runs it, and all other files.
tar -C / --exclude=opt -xf files.tar
python3 -m compileall -q /usr/local/lib/gpuwright
for name in gpu-doctor gpu-job gpu-run gpu-tune; do ln -sfn "/usr/local/bin/$name" "/usr/bin/$name"; done

# PyTorch from a lock file with hashes, and the trainer.
python3.11 -m venv "$VENV"
tar -C / -xf files.tar opt
"$VENV/bin/pip" install -q --disable-pip-version-check --no-cache-dir --only-binary :all: --require-hashes --no-deps --no-index \
    --find-links /srv/gpuwright/wheelhouse -r "$VENV/lock.txt"
"$VENV/bin/pip" check > /dev/null
"$VENV/bin/pip" install -q --disable-pip-version-check --no-cache-dir --no-deps --no-index "$VENV"/*.whl
ln -sfn "$VENV" "${VENV%/*}/current"

# cuDNN from NVIDIA's wheel: Debian's archive has none.
python3 -m pip install -q --disable-pip-version-check --no-deps --require-hashes --only-binary :all: --no-cache-dir \
    --target "$CUDNN.wheel" --requirement "$CUDNN.wheel/lock.txt"
ln -sfn "$CUDNN.wheel/nvidia/cudnn" "$CUDNN"

systemctl daemon-reload
systemctl -q enable gpuwright-devices gpuwright-boot-check nvidia-persistenced || true
systemctl -q enable --now gpuwright-tuning gpuwright-check.timer gpuwright-check.path || true
