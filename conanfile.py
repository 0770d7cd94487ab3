"""Packages Nacre's libraries for Conan 2: `conan create . --build=missing` in a checkout.

The package gives the targets of CMakeLists.txt: nacre::nacre, and a target for each port that an option asks for. The
command `nacre` and the Python package are not in it.
"""

import pathlib
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, rmdir
from conan.tools.scm import Version
from conan.tools.system.package_manager import Apt

PORTS = ["x86", "arm", "threads", "files", "cuda"]
X86 = ["x86", "x86_64"]
OLDEST = {"gcc": "12", "clang": "15"}


class NacreConan(ConanFile):
    name = "nacre"
    description = "Runs and trains neural networks in the caller's memory, without a heap"
    license = "Apache-2.0"
    topics = ("neural-network", "inference", "training", "embedded", "quantization")
    package_type = "static-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        **{port: [True, False] for port in PORTS},
        "tiers": ["ANY"],  # of fast kernels: all, native, runnable, none, or names with commas
        "sentences": [True, False],
        "cuda_kernels": [True, False],
        "flatbuffers": ["system", "conan"],
    }
    default_options = {
        **{port: True for port in PORTS},
        "tiers": "all",
        "sentences": True,
        "cuda_kernels": False,
        "flatbuffers": "system",
    }
    exports_sources = ("CMakeLists.txt", "meson.build", "meson_options.txt", "engine/*", "ports/*", "schema/*",
                       "include/*", "LICENSE", "NOTICE")
    exports = "meson.build"

    def set_version(self) -> None:
        text = (pathlib.Path(self.recipe_folder) / "meson.build").read_text(encoding="utf-8")
        self.version = re.search(r"version: '([0-9.]+)'", text).group(1)

    def config_options(self) -> None:
        # One of the two is there, by the processor.
        self.options.rm_safe("arm" if str(self.settings.arch) in X86 else "x86")

    def configure(self) -> None:
        if not (self.options.get_safe("x86") or self.options.get_safe("arm")):
            self.options.rm_safe("tiers")
        if not self.options.cuda:
            self.options.rm_safe("cuda_kernels")

    def validate(self) -> None:
        compiler = str(self.settings.compiler)
        if compiler not in ("gcc", "clang", "apple-clang"):
            raise ConanInvalidConfiguration(f"Nacre: {compiler} is no compiler that it knows; take gcc or clang")
        if compiler in OLDEST and Version(self.settings.compiler.version) < OLDEST[compiler]:
            raise ConanInvalidConfiguration(f"Nacre needs C++20: {compiler} {OLDEST[compiler]} or newer")
        if str(self.options.get_safe("tiers")) in ("native", "runnable") and hasattr(self, "settings_build") \
                and self.settings_build.arch != self.settings.arch:
            raise ConanInvalidConfiguration("Nacre: tiers=native and tiers=runnable ask this machine; name the tiers")

    def package_id(self) -> None:
        # The libraries are C++20 inside, whatever the program that links them is.
        self.info.settings.compiler.rm_safe("cppstd")

    def requirements(self) -> None:
        if self.options.flatbuffers == "conan":
            self.requires("flatbuffers/[>=2.0.8 <25]", libs=False, visible=False)

    def build_requirements(self) -> None:
        if self.options.flatbuffers == "conan":
            self.tool_requires("flatbuffers/<host_version>")

    def system_requirements(self) -> None:
        if self.options.flatbuffers == "system":
            Apt(self).install(["flatbuffers-compiler", "libflatbuffers-dev"], check=True)

    def layout(self) -> None:
        cmake_layout(self)

    def _ports(self) -> list[str]:
        return [port for port in PORTS if self.options.get_safe(port)]

    def generate(self) -> None:
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        toolchain.cache_variables["NACRE_INSTALL"] = True
        toolchain.cache_variables["NACRE_PORTS"] = ",".join(self._ports())
        toolchain.cache_variables["NACRE_X86_TIERS"] = str(self.options.get_safe("tiers", "none"))
        toolchain.cache_variables["NACRE_SENTENCES"] = bool(self.options.sentences)
        toolchain.cache_variables["NACRE_CUDA"] = bool(self.options.get_safe("cuda_kernels", False))
        if self.options.flatbuffers == "conan":
            headers = self.dependencies["flatbuffers"].cpp_info.aggregated_components().includedirs[0]
            compiler = self.dependencies.build["flatbuffers"].cpp_info.aggregated_components().bindirs[0]
            toolchain.cache_variables["NACRE_FLATBUFFERS"] = headers
            toolchain.cache_variables["NACRE_FLATC"] = str(pathlib.Path(compiler) / "flatc")
        toolchain.generate()

    def build(self) -> None:
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self) -> None:
        CMake(self).install()
        for name in ("LICENSE", "NOTICE"):
            copy(self, name, self.source_folder, str(pathlib.Path(self.package_folder) / "licenses"))
        rmdir(self, str(pathlib.Path(self.package_folder) / "lib" / "cmake"))  # CMakeDeps writes these files anew

    def package_info(self) -> None:
        self.cpp_info.set_property("cmake_file_name", "nacre")
        self.cpp_info.set_property("cmake_target_name", "nacre::everything")
        self.cpp_info.set_property("pkg_config_name", "nacre-everything")
        unix = self.settings.os != "Windows"
        engine = self.cpp_info.components["nacre"]
        engine.libs = ["nacre_cortex_m", "nacre"]
        engine.includedirs = ["include", "include/nacre/compat"]
        engine.system_libs = ["m"] if unix else []
        engine.set_property("cmake_target_name", "nacre::nacre")
        engine.set_property("pkg_config_name", "nacre")
        standard_library = "c++" if self.settings.os == "Macos" else "stdc++"
        for name in self._ports():
            port = self.cpp_info.components[name]
            port.libs = [f"nacre_{name}"]
            port.requires = ["nacre"]
            port.system_libs = [standard_library]  # a program of C must link it
            port.set_property("cmake_target_name", f"nacre::{name}")
            port.set_property("pkg_config_name", f"nacre-{name}")
        if "threads" in self._ports():
            self.cpp_info.components["threads"].system_libs.append("pthread")
        if "cuda" in self._ports():
            self.cpp_info.components["cuda"].system_libs.append("dl")  # the driver is opened when a program runs
