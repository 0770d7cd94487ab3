"""Adds the licenses of linked libraries to a wheel, and makes its bytes depend on its contents alone.

    finish_wheel.py WHEEL LICENSES FOLDER        FOLDER/WHEEL is written

Files are sorted, and carry the date of SOURCE_DATE_EPOCH and no owner. libdeflate compresses them: 3 % smaller than zlib at
its highest level.
"""

import base64
import hashlib
import os
import pathlib
import stat
import sys
import time
import zipfile

import deflate


class _Whole:
    """Compresses a file as a whole, behind the interface of zlib's objects."""

    def __init__(self, *_: object) -> None:
        self._data = b""

    def compress(self, data: bytes) -> bytes:
        self._data += data
        return b""

    def flush(self) -> bytes:
        return bytes(deflate.deflate_compress(self._data, 12))


zipfile._get_compressor = _Whole  # type: ignore[attr-defined]  # zipfile offers no other way


def _row(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}"


def main(wheel: pathlib.Path, licenses: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes the finished wheel."""
    with zipfile.ZipFile(wheel) as archive:
        files = {info.filename: (archive.read(info), info.external_attr >> 16) for info in archive.infolist() if not info.is_dir()}
    record = next(name for name in files if name.endswith(".dist-info/RECORD"))
    information = record.removesuffix("RECORD")
    for text in sorted(licenses.glob("*.txt")):
        files[f"{information}licenses/third_party/{text.name}"] = (text.read_bytes(), 0o644)
    rows = [_row(name, data) for name, (data, _) in sorted(files.items()) if name != record]
    files[record] = ("\n".join([*rows, f"{record},,", ""]).encode(), 0o644)

    date = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]  # zip begins in 1980
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / wheel.name, "w", zipfile.ZIP_DEFLATED) as archive:
        # The folder of metadata is last, as the format of wheels recommends.
        for name in sorted(files, key=lambda name: (name.startswith(information), name)):
            data, mode = files[name]
            info = zipfile.ZipInfo(name, date)
            info.create_system = 3
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (stat.S_IFREG | (0o755 if mode & 0o100 else 0o644)) << 16
            archive.writestr(info, data)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:4]))
