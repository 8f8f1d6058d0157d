# SPDX-License-Identifier: MIT
"""A disk of its own: an ext4 file system in a file, on a loop device.

    loop_disk.need_root()                   runs the program again by sudo, if it has to
    with loop_disk.LoopDisk(64) as disk:
        ...                                 disk.path is where it is mounted
        with disk.cut() as other:           another one, with what this disk had at that moment, as after a power cut
            ...

What the kernel has not written yet is in its memory, above the device; so the file behind the device is what would be
there after a power cut. Nothing is left: the device goes with the mount, and the mounts with the process if it has a
namespace of its own, which need_root gives it.
"""

import contextlib
import fcntl
import filecmp
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

CONTROL = "/dev/loop-control"
CONTROL_NUMBER = os.makedev(10, 237)
LOOP_MAJOR = 7
GET_FREE = 0x4C82  # LOOP_CTL_GET_FREE
MARK = "WEIR_LOOP_DISK"


def need_root():
    """Mounting needs it. Also gives the program mounts of its own, where that can be had."""
    if MARK in os.environ:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # and takes everything down
        return
    line = [sys.executable, *sys.argv]
    unshare = ["unshare", "--mount", "--propagation", "private"]
    root = [] if os.geteuid() == 0 else ["sudo", "-n", "-E"]
    if subprocess.run([*root, "true"], check=False, capture_output=True).returncode != 0:
        sys.exit("a disk to be cut off needs root (mount, losetup), or sudo without a password")
    if subprocess.run([*root, *unshare, "true"], check=False, capture_output=True).returncode != 0:
        unshare = []  # in a chroot, say
    words = [*root, "env", f"{MARK}=1", *unshare, *line]
    os.execvp(words[0], words)


def run(*words):
    done = subprocess.run(words, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin", "LC_ALL": "C"})
    if done.returncode != 0:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


def node(path, kind, number):
    """A chroot may have none of them."""
    if not os.path.exists(path):
        os.mknod(path, kind | 0o600, number)


def attach(image):
    """A loop device for it. Others may be quicker, so that this is tried again."""
    node(CONTROL, stat.S_IFCHR, CONTROL_NUMBER)
    for attempt in range(20):
        with open(CONTROL, "rb", buffering=0) as control:
            number = fcntl.ioctl(control, GET_FREE)
        device = f"/dev/loop{number}"
        node(device, stat.S_IFBLK, os.makedev(LOOP_MAJOR, number))
        try:
            run("losetup", device, image)
            return device
        except OSError:
            if attempt == 19:
                raise
    raise AssertionError()


def need_loops():
    """Ends the program, and says so, where no kernel would give anybody a loop device: in a container without them."""
    try:
        LoopDisk(8).close()
    except OSError as why:
        print(f"SKIPPED, nothing was cut off: this machine has no loop devices that can be mounted ({why})")
        sys.exit(77)


class LoopDisk:
    def __init__(self, megabytes=0, image=None):
        """So large, or what is in an image, which goes as well in the end."""
        self.folder = tempfile.mkdtemp(prefix="weir-disk-")
        self.path = os.path.join(self.folder, "mount")
        self.image = os.path.join(self.folder, "image")
        self.device = None
        try:
            if image:
                os.rename(image, self.image)
            else:
                with open(self.image, "wb") as file:
                    file.truncate(megabytes << 20)
                run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard", self.image)
            os.mkdir(self.path)
            self.mount()
        except BaseException:
            self.close()
            raise

    def mount(self):
        device = attach(self.image)
        try:
            run("mount", "-t", "ext4", "-o", "noatime,errors=remount-ro", device, self.path)
            self.device = device
        finally:
            run("losetup", "-d", device)  # when it is not mounted any more

    def unmount(self):
        if self.device:
            self.device = None
            run("umount", self.path)

    def repair(self):
        """As a machine does when it starts, after an error of the file system."""
        run("sh", "-c", f"e2fsck -p '{self.image}' || test $? -eq 1")

    def close(self):
        try:
            self.unmount()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def copy(self, target):
        """As it was at one moment: the kernel may write while it is copied, and then it is copied again."""
        while True:
            run("cp", "--sparse=always", self.image, target)
            if filecmp.cmp(self.image, target, shallow=False):
                return

    @contextlib.contextmanager
    def cut(self):
        """The copy is there at once; it is mounted when it is entered."""
        target = self.image + ".cut"
        self.copy(target)
        with LoopDisk(image=target) as other:
            yield other

    # ---- troubles

    def fill(self):
        """Nothing is left."""
        with open(os.path.join(self.path, "filler"), "ab", buffering=0) as file:
            with contextlib.suppress(OSError):
                room = os.fstatvfs(file.fileno())
                os.posix_fallocate(file.fileno(), file.tell(), room.f_bavail * room.f_bsize)
            for size in (1 << 16, 4096, 1):
                with contextlib.suppress(OSError):
                    while True:
                        file.write(bytes(size))

    def free(self):
        os.unlink(os.path.join(self.path, "filler"))

    def break_off(self):
        """The kernel finds an error and lets nobody write any more."""
        with tempfile.TemporaryDirectory(prefix="weir-sys-") as folder:
            run("mount", "-t", "sysfs", "none", folder)
            try:
                name = os.path.basename(self.device)
                with open(f"{folder}/fs/ext4/{name}/trigger_fs_error", "w", encoding="ascii") as file:
                    file.write("a test\n")
            finally:
                run("umount", folder)
