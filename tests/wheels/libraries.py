"""Lists the libraries that a wheel asks of the system and those that it brings; refuses any that is not expected.

    libraries.py WHEEL
"""

import io
import os
import sys
import zipfile

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

# The C and C++ libraries, which every Linux of the wheel's platform has.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}

needed, brought, sizes = set(), set(), {}
with zipfile.ZipFile(sys.argv[1]) as wheel:
    names = wheel.namelist()
    for name in names:
        if ".so" not in os.path.basename(name):
            continue
        data = wheel.read(name)
        sizes[os.path.basename(name)] = len(data)
        if "/_native" not in name:
            brought.add(os.path.basename(name))
        section = ELFFile(io.BytesIO(data)).get_section_by_name(".dynamic")
        assert isinstance(section, DynamicSection)
        needed |= {tag.needed for tag in section.iter_tags() if tag.entry.d_tag == "DT_NEEDED"}
assert needed - SYSTEM == brought, needed - SYSTEM ^ brought
assert len(brought) == 1 and next(iter(brought)).startswith("libsndfile"), brought
for part in ("LICENSE", "NOTICE", "third_party/hdf5.txt", "third_party/libsndfile.txt"):
    assert any(name.endswith(".dist-info/licenses/" + part) for name in names), part
print(", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sorted(sizes.items())) + "; of the system " + " ".join(sorted(needed & SYSTEM)))
