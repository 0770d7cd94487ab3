"""Writes a release's bill of materials: SPDX 2.3, as JSON, on standard output.

    bill_of_materials.py VERSION COMMIT STATIC PACKAGE...

STATIC is build/static: STATIC/ARCHITECTURE has packages.tsv (name, version of Debian's source) and the licenses. Each
PACKAGE is a file of the release. Those whose names hold an architecture contain the libraries of libraries.tsv.
"""

import csv
import datetime
import hashlib
import json
import os
import pathlib
import re
import sys
import uuid

_LIBRARIES = pathlib.Path(__file__).with_name("libraries.tsv")
_ARCHITECTURES = ("x86_64", "aarch64")


def _rows(path: pathlib.Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file, delimiter="\t"))


def _identifier(*words: str) -> str:
    return "SPDXRef-" + "-".join(re.sub(r"[^A-Za-z0-9.-]", "-", word) for word in words)


def _in_debian(copyright_text: str) -> str:
    """Names the licenses that Debian's copyright file has, in its words."""
    found = re.findall(r"^License: *(\S.*)$", copyright_text, re.MULTILINE)
    return "Debian's copyright file names: " + "; ".join(dict.fromkeys(found)) if found else "Debian's copyright file is prose."


def _library(name: str, version: str, architecture: str, folder: pathlib.Path, facts: list[str]) -> dict:
    expression, home, linked = facts
    upstream = re.sub(r"^\d+:", "", version)
    return {
        "SPDXID": _identifier(architecture, name),
        "name": name,
        "versionInfo": version,
        "supplier": "Organization: Debian",
        "downloadLocation": "NOASSERTION",
        "homepage": home,
        "filesAnalyzed": False,
        "licenseConcluded": expression,
        "licenseDeclared": expression,
        "licenseComments": _in_debian((folder / "licenses" / f"{name}.txt").read_text(errors="replace")),
        "copyrightText": "NOASSERTION",
        "comment": f"linked: {linked}",
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:deb/debian/{name}@{upstream.replace('+', '%2B')}?arch=source",
            }
        ],
    }


def _package(path: pathlib.Path, version: str) -> dict:
    return {
        "SPDXID": _identifier("file", path.name),
        "name": "nacre",
        "versionInfo": version,
        "packageFileName": path.name,
        "supplier": "NOASSERTION",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "checksums": [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(path.read_bytes()).hexdigest()}],
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
        "primaryPackagePurpose": "SOURCE" if not any(name in path.name for name in _ARCHITECTURES) else "INSTALL",
    }


def main(version: str, commit: str, static: str, *paths: str) -> None:
    """Prints the bill of materials."""
    facts = {row[0]: row[1:] for row in _rows(_LIBRARIES)}
    packages, relations = [], []
    files = [pathlib.Path(path) for path in paths]
    for path in files:
        packages.append(_package(path, version))
        relations.append(("SPDXRef-DOCUMENT", "DESCRIBES", packages[-1]["SPDXID"]))
    for architecture in _ARCHITECTURES:
        holders = [_identifier("file", path.name) for path in files if architecture in path.name]
        if not holders:
            continue
        folder = pathlib.Path(static) / architecture
        for name, source_version in sorted(_rows(folder / "packages.tsv")):
            library = _library(name, source_version, architecture, folder, facts[name])
            packages.append(library)
            relation = "DYNAMIC_LINK" if facts[name][2] == "shared" else "STATIC_LINK"
            relations += [(holder, relation, library["SPDXID"]) for holder in holders]
    date = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    bill = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"nacre-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/nacre-{version}-{uuid.uuid5(uuid.NAMESPACE_OID, commit)}",
        "creationInfo": {"created": date.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: nacre-release"]},
        "packages": packages,
        "relationships": [{"spdxElementId": a, "relationshipType": b, "relatedSpdxElement": c} for a, b, c in relations],
    }
    json.dump(bill, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:])
