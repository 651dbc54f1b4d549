"""Which filesystems have reliable change times, and what is read again where there are none."""

import mmap
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from eyechart.io import digests
from eyechart.io.digests import file_digest, file_state, forget_digests, is_settled, remember_digests, weak_mount

HOST = [
    "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard",
    "22 27 0:21 / /proc rw,relatime - proc proc rw",
    "30 27 8:17 / /mnt/with\\040space rw,relatime shared:5 - xfs /dev/sdb1 rw,attr2",
    "31 27 0:40 /sub /home rw,relatime - btrfs /dev/sdc rw,subvolid=256,subvol=/sub",
    "32 27 0:41 / /scratch rw - lustre 10.0.0.1@tcp:/fs rw,flock",
    "33 27 0:42 / /nfs ro,relatime - nfs4 server:/export ro,vers=4.2",
    "34 27 7:0 / /images/squash ro,nodev,relatime - squashfs /dev/loop0 ro,errors=continue",
    "35 27 7:1 / /images/ext ro,relatime - ext4 /dev/loop1 rw",
    "36 27 254:16 / /volume ro,relatime - xfs /dev/vdb ro",
    "37 27 0:43 / /fuse rw - fuse.sshfs me@host:/ rw,user_id=0",
    "38 27 0:44 / /nine rw - 9p share rw,trans=virtio",
    "39 27 8:33 / /usb rw - vfat /dev/sdd1 rw,fmask=0022",
    "40 27 0:45 / /merged rw - overlay overlay rw,lowerdir=/opt/low:/opt/lower,upperdir=/opt/up,workdir=/opt/work",
    "41 27 0:46 / /apptainer rw - overlay overlay rw,lowerdir=/opt/low:/images/squash,upperdir=/opt/up,workdir=/w",
    "42 27 0:47 / /windows rw - cifs //server/share rw,vers=3.1.1",
]
"""Lines of /proc/self/mountinfo."""
CONTAINER = [
    "1 0 0:50 / / rw - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/AB:/var/lib/docker/overlay2/l/CD",
    "2 1 254:0 /data /data rw,relatime - ext4 /dev/vda rw",
]


@pytest.mark.parametrize(
    ("device", "path", "kind"),
    [
        ((254, 0), "/home.txt", ""),
        ((8, 17), "/mnt/with space/a", ""),
        ((0, 99), "/home/me/a", ""),  # a btrfs subvolume has a device of its own
        ((0, 41), "/scratch/a", ""),
        ((0, 42), "/nfs/a", ""),
        ((7, 0), "/images/squash/a", "squashfs"),
        ((7, 1), "/images/ext/a", "ext4"),
        ((254, 16), "/volume/a", "xfs"),
        ((0, 43), "/fuse/a", "fuse.sshfs"),
        ((0, 44), "/nine/a", "9p"),
        ((8, 33), "/usb/a", "vfat"),
        ((0, 45), "/merged/a", ""),
        ((0, 46), "/apptainer/a", "overlay"),
        ((0, 98), "/apptainer/a", "overlay"),  # files of a lower layer may have a device of their own
        ((0, 47), "/windows/a", "cifs"),
    ],
)
def test_filesystems_of_a_host(device, path, kind):
    assert weak_mount(HOST, os.makedev(*device), path) == kind


def test_an_overlay_whose_layers_are_invisible_is_not_relied_on_but_a_volume_is():
    assert weak_mount(CONTAINER, os.makedev(0, 50), "/weights.bin") == "overlay"
    assert weak_mount(CONTAINER, os.makedev(254, 0), "/data/weights.bin") == ""
    assert weak_mount([], 1, "/a") == "unknown"


@pytest.fixture
def settled(monkeypatch):
    """Cache the digest of a file as soon as it is flushed."""
    monkeypatch.setattr(digests, "SETTLED", -1)


@pytest.fixture
def weak(monkeypatch):
    """Let every device have a filesystem without reliable change times: a double for a mounted image."""
    monkeypatch.setattr(digests, "weak_filesystem", lambda path, device=None: "squashfs")


@pytest.fixture
def frozen(monkeypatch):
    """Report equal times, inodes and devices for all files of equal size: a double for a reproducible image."""
    monkeypatch.setattr(digests, "_times", lambda found: [found.st_size, 1, 1, 1, 1])


def reads(path, **options):
    """Return the digest, and whether the file was read for it."""
    found, before = [], digests.hashlib.file_digest

    def count(*args):
        found.append(args)
        return before(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digests.hashlib, "file_digest", count)
        return file_digest(path, **options), bool(found)


def test_weights_without_change_times_are_always_read_and_data_are_sampled(tmp_path, settled, weak, frozen):
    path = tmp_path / "file"
    path.write_bytes(bytes(1_000_000))
    first, _ = reads(path)
    reads(path, weights=True)

    assert reads(path) == (first, False)
    assert reads(path, weights=True) == (first, True)

    path.write_bytes(b"1" + bytes(999_999))
    assert reads(path)[1]
    changed = bytearray(1_000_000)
    changed[5000] = 1  # between two samples
    path.write_bytes(changed)
    reads(path)
    changed[5000] = 2
    path.write_bytes(changed)
    assert not reads(path)[1]  # as documented: what --rehash is for
    assert reads(path, weights=True)[0] == digests.digest_bytes(bytes(changed))

    forget_digests()
    assert reads(path) == (digests.digest_bytes(bytes(changed)), True)


@pytest.mark.parametrize("size", [0, 1, 4096, 65_536, 65_537, 1_000_000])
def test_first_and_last_bytes_are_among_the_samples_and_all_bytes_of_a_small_file(tmp_path, weak, frozen, size):
    path = tmp_path / "file"
    path.write_bytes(bytes(size))
    before = file_state(path)
    for place in {0, size - 1, *(range(0, size, 997) if size <= 65_536 else ())}:
        if 0 <= place < size:
            changed = bytearray(size)
            changed[place] = 1
            path.write_bytes(changed)
            assert file_state(path) != before, place


def test_retrained_weights_are_noticed_although_all_times_are_equal(tmp_path, settled, frozen):
    path = tmp_path / "weights.bin"
    path.write_bytes(os.urandom(1_000_000))
    before = file_digest(path, weights=True)
    assert reads(path, weights=True) == (before, False)

    path.write_bytes(os.urandom(1_000_000))
    assert file_digest(path, weights=True) != before


def test_a_write_through_a_mapping_into_a_changed_page_is_noticed(tmp_path, settled):
    path = tmp_path / "file"
    path.write_bytes(bytes(8192))
    with path.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as mapped:
        mapped[0] = 1
        first = file_digest(path)
        mapped[1] = 1  # the page has been changed already, and its times with it

        assert file_digest(path) != first


def test_recently_changed_files_beyond_the_limit_are_not_cached(tmp_path, settled, monkeypatch):
    monkeypatch.setattr(digests, "MAX_FLUSHED", 2)
    states = []
    for number in range(3):
        path = tmp_path / str(number)
        path.write_bytes(b"1")
        states.append(file_state(path))

    assert [is_settled(state) for state in states] == [True, True, False]
    assert [is_settled([1, 0, 0, *state[3:]]) for state in states] == [True] * 3  # long ago


def test_forgotten_digests_are_read_again_by_the_next_process(tmp_path, settled, own_cache):
    path = tmp_path / "file"
    path.write_bytes(b"1")
    file_digest(path)
    remember_digests()
    assert list((own_cache / "digests").iterdir())

    forget_digests()

    assert not (own_cache / "digests").exists()
    assert reads(path)[1]


@pytest.fixture
def mounted(tmp_path):
    """Mount folders as reproducible squashfs images, one after the other, at the same place."""
    if os.geteuid() or not shutil.which("mksquashfs"):
        pytest.skip("needs root and squashfs-tools")
    point = tmp_path / "mounted"
    point.mkdir()

    def mount(folder: Path) -> Path:
        unmount()
        image, flags = folder.with_suffix(".img"), ["-all-time", "1600000000", "-mkfs-time", "1600000000", "-all-root"]
        plain = ["-noI", "-noD", "-noF", "-noX", "-quiet", "-no-progress"]
        subprocess.run(["mksquashfs", folder, image, *flags, *plain], check=True, capture_output=True)
        if subprocess.run(["mount", "-o", "loop,ro", image, point], check=False, capture_output=True).returncode:
            pytest.skip("cannot mount a loop device")
        return point

    def unmount():
        subprocess.run(["umount", point], check=False, capture_output=True)

    yield mount
    unmount()


def test_two_images_with_equal_attributes_of_all_files(tmp_path, mounted):
    for name, byte in (("one", b"1"), ("two", b"2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(bytes(500_000) + byte + bytes(500_000))
    place = mounted(tmp_path / "one") / "file"
    attributes, state = digests._times(place.stat()), file_state(place)
    first, weights = file_digest(place), file_digest(place, weights=True)
    assert reads(place) == (first, False)
    mounted(tmp_path / "two")

    assert digests.weak_filesystem(place) == "squashfs"
    assert digests._times(place.stat()) == attributes
    assert file_state(place) != state  # the image behind the loop device is another file
    assert file_digest(place) != first
    assert file_digest(place, weights=True) != weights
