"""Tar and zip files that lie about what is in them."""

import io
import tarfile
import time
import zipfile

import pytest

from eyechart.datasets import prompt_pack, tar_shards
from eyechart.datasets.questions import prediction_files
from eyechart.datasets.questions.prediction_files import read_xlsx, write_xlsx
from eyechart.datasets.tar_shards import iter_groups
from eyechart.datasets.webdataset import open_webdataset
from eyechart.errors import DataError
from eyechart.manifest import iter_samples
from eyechart.types import DatasetSpec
from support.data import png, write_classification, write_tar

BLOCK = 512


def member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, **fields) -> bytes:
    """Write one member; ``size`` may say what is not true."""
    info = tarfile.TarInfo(name)
    info.size, info.type = len(data), kind
    for field, value in fields.items():
        setattr(info, field, value)
    return info.tobuf(tarfile.GNU_FORMAT) + data.ljust(-(-len(data) // BLOCK) * BLOCK, b"\0")


def shard(path, *members: bytes):
    path.write_bytes(b"".join(members) + b"\0" * 2 * BLOCK)
    return path


def read(path):
    return list(iter_groups(path))


@pytest.mark.parametrize("name", ["ABSOLUTE/x.png", "../../x.png", "a/../../x.png"])
def test_a_name_that_leads_out_leads_nowhere(tmp_path, name):
    root = write_classification(tmp_path / "data", n=1, shards=1)
    name = name.replace("ABSOLUTE", str(tmp_path / "elsewhere"))
    write_tar(root / "test" / "0.tar", [(name, png()), (name.replace(".png", ".cls"), b"1")])
    before = sorted(tmp_path.rglob("*"))

    [sample] = iter_samples(open_webdataset(DatasetSpec("wds/x", "wds", str(root))))

    assert sample.image.read() == png()
    assert sample.image.path is None
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (tarfile.SYMTYPE, "link"),
        (tarfile.LNKTYPE, "hard link"),
        (tarfile.CHRTYPE, "device"),
        (tarfile.FIFOTYPE, "pipe"),
    ],
)
def test_links_and_devices_are_refused(tmp_path, kind, what):
    path = shard(tmp_path / "0.tar", member("a.png", kind=kind, linkname="/etc/passwd"))

    with pytest.raises(DataError, match="not a regular file"):
        read(path)


def test_a_sparse_member_is_refused(tmp_path):
    """A kilobyte can claim to be a hundred megabytes of zeros."""
    header = bytearray(member("a.png", kind=tarfile.GNUTYPE_SPARSE))
    header[386:398], header[398:410] = b"00000000000\0", b"00000000000\0"
    header[483:495] = f"{100 * 2**20:011o}\0".encode()
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header[:BLOCK]):06o}\0 ".encode()

    with pytest.raises(DataError, match="not a regular file"):
        read(shard(tmp_path / "0.tar", bytes(header)))


def test_a_member_of_negative_size_does_not_lead_in_circles(tmp_path):
    path = shard(tmp_path / "0.tar", member("a.png", png()), member("b.png", size=-BLOCK))

    with pytest.raises(DataError, match=r"damaged|has more than"):
        read(path)


def test_a_long_name_of_gigabytes_is_not_read(tmp_path):
    path = shard(tmp_path / "0.tar", member("././@LongLink", kind=tarfile.GNUTYPE_LONGNAME, size=3 * 2**30))

    with pytest.raises(DataError, match="a header of 3221225"):
        read(path)


def test_an_endless_chain_of_headers_ends(tmp_path):
    path = shard(tmp_path / "0.tar", *[member("././@LongLink", b"x\0", tarfile.GNUTYPE_LONGNAME)] * 3000)

    with pytest.raises(DataError, match="damaged or truncated"):
        read(path)


def test_a_sample_has_a_limit_of_bytes_and_of_members(tmp_path, monkeypatch):
    path = shard(tmp_path / "0.tar", member("a.png", png()), *(member(f"a.{i}", b"x" * 100) for i in range(9)))
    assert len(read(path)) == 1

    monkeypatch.setattr(tar_shards, "MAX_BYTES", len(png()) + 500)
    with pytest.raises(DataError, match="has more than"):
        read(path)
    monkeypatch.undo()
    monkeypatch.setattr(tar_shards, "MAX_MEMBERS", 5)
    with pytest.raises(DataError, match="has more than 5 members"):
        read(path)


def test_joined_archives_are_refused_and_not_half_read(tmp_path):
    one = member("a.png", png()) + b"\0" * 2 * BLOCK

    with pytest.raises(DataError, match="after its end mark"):
        read(shard(tmp_path / "0.tar", one, member("b.png", png())))


@pytest.mark.parametrize("lost", [0.5, 0.02])
def test_an_archive_whose_end_was_never_written_is_refused_and_not_half_read(tmp_path, lost):
    """A copy that broke off, or a disk that lost its last blocks: the size is right, the rest is zeros."""
    root = write_classification(tmp_path, n=300, shards=1)
    path = root / "test" / "0.tar"
    whole = path.read_bytes()
    with tarfile.open(path) as archive:
        headers = [member.offset for member in archive if member.name.endswith(".cls")]
    end = headers[int(len(headers) * (1 - lost))]
    path.write_bytes(whole[:end].ljust(len(whole), b"\0"))

    with pytest.raises(DataError, match=rf"0\.tar is damaged: it ends with {len(whole) - end} zero bytes"):
        list(iter_samples(open_webdataset(DatasetSpec("wds/x", "wds", str(root)))))


@pytest.mark.parametrize("size", [0, 300, 511, 512, 513, 9215, 9216, 9217, 10240])
def test_an_archive_ends_in_two_blocks_and_may_fill_its_record(tmp_path, size):
    """Python and GNU tar fill the record, others do not."""
    write_tar(tmp_path / "filled.tar", [("a.png", b"x" * size)])
    shard(tmp_path / "bare.tar", member("a.png", b"x" * size))
    assert (tmp_path / "filled.tar").stat().st_size % 10240 == 0

    for name in ("filled.tar", "bare.tar"):
        assert read(tmp_path / name) == [("a", {"png": b"x" * size})]


def test_a_cut_behind_a_member_that_ends_in_zeros_is_found(tmp_path):
    """The zeros are not the end mark, though they look like it from behind."""
    path = tmp_path / "0.tar"
    path.write_bytes(member("a.png", png()) + member("a.npy", b"\0" * 4096))

    tar_shards.check_whole(path)
    with pytest.raises(DataError, match="truncated: it has no end mark"):
        read(path)


@pytest.mark.parametrize("size", [1024, 10240, 102400])
def test_an_archive_of_nothing_is_refused(tmp_path, size):
    (tmp_path / "0.tar").write_bytes(b"\0" * size)

    with pytest.raises(DataError, match=r"0\.tar (contains no samples|is damaged)"):
        read(tmp_path / "0.tar")


@pytest.mark.parametrize("count", ["1000000000000", "0", "-1", "9" * 5000])
def test_a_split_of_a_million_million_shards_is_refused(tmp_path, count):
    root = write_classification(tmp_path, n=1, shards=1)
    (root / "test" / "nshards.txt").write_text(count)

    with pytest.raises(DataError, match=r"nshards\.txt"):
        open_webdataset(DatasetSpec("wds/x", "wds", str(root)))


def sheet(path, replace: dict[bytes, bytes]):
    """Write a spreadsheet whose XML was changed by hand."""
    write_xlsx(path, ["index", "prediction"], [[1, "a"], [2, "b"]])
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            changed = part
            for old, new in replace.items() if "sheet1" in name else ():
                changed = changed.replace(old, new)
            archive.writestr(name, changed)
    return path


def test_a_spreadsheet_that_unpacks_to_gigabytes_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    path = sheet(tmp_path / "p.xlsx", {b"<sheetData>": b"<sheetData>" + b" " * 20_000_000})
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(prediction_files, "MAX_UNPACKED", 10_000_000)
    monkeypatch.setattr("openpyxl.load_workbook", None)

    with pytest.raises(DataError, match="more than the limit of 10000000"):
        read_xlsx(path)


def test_a_spreadsheet_that_claims_two_thousand_million_rows_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(prediction_files, "MAX_ROWS", 1000)

    with pytest.raises(DataError, match="more than 1000 rows"):
        read_xlsx(sheet(tmp_path / "p.xlsx", {b'<row r="3"': b'<row r="2000000000"', b'r="A3"': b'r="A2000000000"'}))


END = b"</sheetData>"


def test_cells_far_to_the_right_of_a_spreadsheet_cost_nothing(tmp_path):
    """Filled up to the last column, twenty thousand rows are three hundred million cells."""
    rows = b"".join(b'<row r="%d"><c r="XFD%d"><v>7</v></c></row>' % (i, i) for i in range(4, 20_004))
    path = sheet(tmp_path / "p.xlsx", {END: rows + END})
    start = time.process_time()

    table = read_xlsx(path)

    assert time.process_time() - start < 2
    assert table["index"] == [1, 2]  # what stands under no name is nobody's


def test_a_row_far_below_costs_nothing(tmp_path):
    path = sheet(tmp_path / "p.xlsx", {END: b'<row r="1000000"><c r="A1000000"><v>7</v></c></row>' + END})
    start = time.process_time()

    assert read_xlsx(path)["index"] == [1, 2, 7]
    assert time.process_time() - start < 2


def test_a_spreadsheet_with_too_many_columns_is_refused(tmp_path):
    far = b'<c r="XFD1" t="inlineStr"><is><t>far</t></is></c></row><row r="2"'

    with pytest.raises(DataError, match="more than 256 columns"):
        read_xlsx(sheet(tmp_path / "p.xlsx", {b'</row><row r="2"': far}))


def test_a_spreadsheet_with_too_many_cells_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(prediction_files, "MAX_CELLS", 1000)
    write_xlsx(tmp_path / "p.xlsx", ["a", "b"], [[1, None]] * 501)

    with pytest.raises(DataError, match="more than 1000 cells"):
        read_xlsx(tmp_path / "p.xlsx")


def test_a_spreadsheet_is_read_whole_whatever_it_says_of_its_size(tmp_path):
    path = sheet(tmp_path / "p.xlsx", {b"<sheetData>": b'<dimension ref="A1:A2"/><sheetData>'})

    assert read_xlsx(path).to_dict() == [{"index": 1, "prediction": "a"}, {"index": 2, "prediction": "b"}]


def test_a_column_without_a_name_is_left_out_and_moves_no_other(tmp_path):
    import openpyxl

    book = openpyxl.Workbook()
    for row in (["index", None, "prediction"], [1, "comment", "a"]):
        book.active.append(row)
    book.save(tmp_path / "p.xlsx")

    assert read_xlsx(tmp_path / "p.xlsx").to_dict() == [{"index": 1, "prediction": "a"}]


def test_entities_in_a_spreadsheet_do_not_multiply(tmp_path):
    entities = b"".join(b'<!ENTITY e%d "%s">' % (i + 1, b"&e%d;" % i * 10) for i in range(9))
    laughs = b'<!DOCTYPE x [<!ENTITY e0 "ha">' + entities + b"]><worksheet"

    with pytest.raises(DataError, match="not a valid spreadsheet"):
        read_xlsx(sheet(tmp_path / "p.xlsx", {b"<worksheet": laughs, b"<v>1</v>": b"<v>&e9;</v>"}))


def test_a_prompt_pack_that_unpacks_to_gigabytes_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "pack.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(prompt_pack.FOLDER + "en_classnames.json", io.BytesIO(b" " * 200_000).getvalue())
    monkeypatch.setattr(prompt_pack, "MAX_MEMBER", 100_000)

    with pytest.raises(DataError, match="unpacks to 200000 bytes"):
        prompt_pack._read(str(path), "en_classnames.json")
