"""Makes a Conan package of the system's FlatBuffers, in the place that ConanCenter's package would have."""

import shutil

from conan import ConanFile


class SystemFlatbuffers(ConanFile):
    name = "flatbuffers"
    version = "2.0.8"
    package_type = "unknown"
    settings = "os", "arch", "compiler", "build_type"

    def package(self) -> None:
        shutil.copytree("/usr/include/flatbuffers", f"{self.package_folder}/include/flatbuffers")
        shutil.copytree("/usr/bin", f"{self.package_folder}/bin", ignore=lambda _, names: set(names) - {"flatc"})

    def package_info(self) -> None:
        self.cpp_info.libs = []
