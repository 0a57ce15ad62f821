"""Faults of a host that has nothing yet: preflight names each and changes nothing."""

from __future__ import annotations

from .row import PREFLIGHT, Row

RPM = "/var/lib/rpm/rpmdb.sqlite"
NOWHERE = "http://repo.fleet.test:9/epel"
# Python's own server with a certificate that nobody has signed.
TLS = r"""mkdir -p /run/tls && cd /run/tls
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost 2>/dev/null
cat > serve.py <<'END'
import http.server, ssl
server = http.server.HTTPServer(("127.0.0.1", 8443), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/run/tls/cert.pem", "/run/tls/key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
END
systemd-run --quiet --unit=tls --collect python3 /run/tls/serve.py
for try in 1 2 3 4 5 6 7 8 9; do curl -ks https://localhost:8443/ > /dev/null && break; sleep 0.3; done"""


def small(folder: str, options: str) -> tuple[str, str]:
    """A file system of its own with what was there before, and the way back."""
    harm = f"""cp -a {folder} /run/table-copy && mount -t tmpfs -o {options} none {folder}
cp -a /run/table-copy/. {folder}/"""
    return harm, f"umount {folder} && rm -rf /run/table-copy"


def space(folder: str, options: str, fault: str, says: str, id: str = "space.free") -> Row:
    harm, mend = small(folder, options)
    made = f"{folder} is a file system of its own ({options})"
    return Row(id, fault, made, (f"The file system of {folder}", says), harm=harm, mend=mend)


def pinned(id: str, fault: str, name: str, value: object, *says: str, **more: object) -> Row:
    return Row(id, fault, f"`{name}: {value}`", says, variables={name: value, **more})


ROWS = (
    space("/boot", "size=9m", "no room in /boot", "MiB free, but about"),
    space("/opt", "size=100m", "no room in /opt", "MiB free, but about"),
    space("/opt", "size=60g,nr_inodes=2000", "no inodes in /opt", "inodes free, but about", "space.inodes"),
    Row("space.read_only", "a file system that takes no files", "/usr is mounted read-only",
        ("is mounted read-only", "/usr"), harm="mount -o bind /usr /usr && mount -o remount,bind,ro /usr",
        mend="mount -o remount,bind,rw /usr && umount -l /usr"),
    pinned("gpu.count", "a GPU is missing", "verify_expected_gpu_count", 2, "1 of 2 GPUs are there"),
    Row("gpu.count", "a GPU in a node that should have none", "`verify_expected_gpu_count: 0`",
        ("There are GPUs in a node that should have none",), 0, variables={"verify_expected_gpu_count": 0}),
    pinned("gpu.model", "another GPU than expected", "verify_expected_gpu_model", "NVIDIA H100 80GB HBM3",
           "Tesla V100-PCIE-16GB is there, but NVIDIA H100 80GB HBM3 is expected"),
    pinned("plan.conflict", "a driver that does not know the GPU", "system_driver_branch", "590",
           "Driver 590 (open) does not drive Tesla V100-PCIE-16GB"),
    pinned("plan.conflict", "a toolkit without the GPU's architecture", "system_cuda_version", "13.0",
           "the last toolkit for volta is 12.9"),
    pinned("plan.conflict", "a toolkit that there never was", "system_cuda_version", "12.77", "12.77"),
    pinned("plan.conflict", "a driver too old for the planned toolkit", "system_driver_branch", "470",
           "470", system_cuda_version="12.9"),
    pinned("plan.conflict", "a PyTorch that there never was", "framework_pytorch_version", "9.9.9", "9.9.9"),
    pinned("framework.lock_file", "a plan without a lock file", "framework_pytorch_version", "2.5.1",
           "There is no lock file for PyTorch 2.5.1", framework_pytorch_build="cpu"),
    pinned("framework.packages", "a package that is none", "framework_pytorch_packages", ["a b"],
           "An entry of framework_pytorch_packages cannot be used"),
    pinned("framework.packages_lock", "a package that nobody has locked", "framework_pytorch_packages", ["lpips"],
           "There is no lock file of framework_pytorch_packages for this plan"),
    Row("account.taken", "an account of somebody else's", "useradd trainer, by hand",
        ("There is an account trainer that this toolkit did not create",),
        harm="useradd -m -c 'Terry Trainer' trainer", mend="userdel -r trainer 2>/dev/null; ! id trainer"),
    Row("packages.database", "a damaged rpm database", "4 KiB in its middle are overwritten",
        ("The rpm database",),
        harm=f"cp -p {RPM} /root/rpmdb && rm -f {RPM}-shm {RPM}-wal && "
             f"dd if=/dev/urandom of={RPM} bs=4096 seek=1 count=40 conv=notrunc status=none",
        mend=f"rm -f {RPM}-shm {RPM}-wal && cat /root/rpmdb > {RPM} && rm /root/rpmdb"),
    pinned("repository.unreachable", "a repository that does not answer", "system_kernel_epel_url", NOWHERE,
           "The repository epel cannot be reached from this host", "Connection refused"),
    pinned("repository.unreachable", "a repository whose name is not known", "system_kernel_epel_url",
           "http://gone.fleet.test/epel", "The repository epel cannot be reached from this host"),
    pinned("repository.unreachable", "a mirror without metadata", "system_kernel_epel_url",
           "http://repo.fleet.test/nothing", "The repository epel cannot be reached from this host", "404"),
    Row("repository.unreachable", "a certificate that nobody has signed", "an https server of the test's own",
        ("The repository epel cannot be reached from this host", "certificate"),
        variables={"system_kernel_epel_url": "https://localhost:8443/epel"}, harm=TLS,
        mend="systemctl stop tls; rm -rf /run/tls"),
    pinned("repository.key", "a key with another fingerprint", "system_kernel_epel_key_fingerprint", "0" * 40,
           "The key of the repository epel is not the pinned one", f"instead of {'0' * 40}"),
    Row("clock.skew", "a clock that is ten minutes ahead", "libfaketime, for what root starts through sudo",
        ("The clock is", "s ahead of the controller's", "chronyc makestep"), harm="@CLOCK@",
        mend="rm -rf /etc/sudoers.d/clock /etc/clock /opt/world"),
    Row("fapolicyd.denied", "fapolicyd without a rule for the environment", "its files, as it installs them",
        ("fapolicyd lets only root use files that no package has installed",), harm="@FAPOLICYD@",
        mend="systemctl disable --now fapolicyd; rm -rf /etc/fapolicyd /etc/systemd/system/fapolicyd.service; "
             "systemctl daemon-reload"),
    Row("", "run from another folder", "the working folder is /, umask 077", (), 0, command=PREFLIGHT, umask=0o077,
        folder="/"),
)  # fmt: skip
