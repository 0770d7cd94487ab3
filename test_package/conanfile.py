"""Builds README's programs of C++ and C against the package, and runs them on a model of 0.1.0."""

import pathlib
import struct
import tarfile

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


def code_of(page: str, language: str) -> str:
    """Takes the blocks of one language out of a page."""
    lines: list[str] = []
    inside = False
    for line in page.splitlines():
        if line.startswith("```"):
            inside = line == f"```{language}"
        elif inside:
            lines.append(line)
    return "\n".join(lines) + "\n"


class TestNacreConan(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps"

    def requirements(self) -> None:
        self.requires(self.tested_reference_str)

    def layout(self) -> None:
        cmake_layout(self)

    def _ports(self) -> list[str]:
        options = self.dependencies["nacre"].options
        return [port for port in ("x86", "arm", "threads", "files", "cuda") if options.get_safe(port)]

    def generate(self) -> None:
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        toolchain.cache_variables["PORTS"] = ";".join(self._ports())
        toolchain.generate()

    def build(self) -> None:
        checkout = pathlib.Path(self.recipe_folder).parent
        folder = pathlib.Path(self.build_folder)
        readme = (checkout / "README.md").read_text(encoding="utf-8")
        for program, language in (("classify.cc", "cpp"), ("bind.c", "c")):
            ending = checkout / "tests" / "claims" / f"readme_classify{pathlib.Path(program).suffix}"
            text = code_of(readme, language) + ending.read_text(encoding="utf-8")
            if "arm" in self._ports():
                text = text.replace("x86", "arm")
            (folder / program).write_text(text, encoding="utf-8")
        with tarfile.open(checkout / "tests" / "old_files" / "0.1.0.tar.xz") as archive:
            model, images = (archive.extractfile(f"0.1.0/{name}").read() for name in ("float32.nacre", "images.npy"))
        first = 10 + int.from_bytes(images[8:10], "little")  # skips the header
        (folder / "plain.nacre").write_bytes(model)
        (folder / "image.bin").write_bytes(struct.pack("<64f", *images[first : first + 64]))
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self) -> None:
        if not can_run(self):
            return
        for program in ("classify", "bind"):
            path = pathlib.Path(self.build_folder) / program
            if path.exists():
                self.output.info(f"{program} prints the scores of README's network")
                self.run(str(path), cwd=self.build_folder, env="conanrun")
