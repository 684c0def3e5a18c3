"""Asks independent validators about bills of materials; prints what they find, ends with 1 if any.

CycloneDX: the official schemas, strictly, by cyclonedx-python-lib. SPDX 2.3: spdx-tools, and the
official schema. SPDX 3.0: the official schema, and the model generated from the official ontology.
Package URLs: packageurl-python. References: every one must lead to something in the same file.
"""

import io
import json
import sys
from importlib.resources import files

import jsonschema
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from spdx_python_model.bindings import v3_0_1 as spdx3
from spdx_tools.spdx.parser.error import SPDXParsingError
from spdx_tools.spdx.parser.jsonlikedict.json_like_dict_parser import JsonLikeDictParser
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document


def by_schema(bill, name):
    schema = json.loads((files("lib4sbom") / "schemas" / "spdx" / name).read_text())
    kind = jsonschema.validators.validator_for(schema)
    validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
    return [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(bill)]


def purls(found):
    return [
        f"{purl} is not the canonical {canonical}"
        for purl in found
        if (canonical := PackageURL.from_string(purl).to_string()).replace("%2F", "/")
        != purl.replace("%2F", "/")
    ]


def dangling(ids, references):
    known = set(ids)
    double = [f"{id} stands there twice" for id in known if ids.count(id) > 1]
    return double + [f"{reference} leads nowhere" for reference in references if reference not in known]


def cyclonedx(text, bill):
    version = SchemaVersion.from_version(bill["specVersion"])
    found = JsonStrictValidator(version).validate_str(text, all_errors=True)
    things = [bill["metadata"]["component"], *bill["components"], *bill["services"]]
    edges = bill["dependencies"]
    targets = [to for edge in edges for to in edge.get("dependsOn", []) + edge.get("provides", [])]
    return [
        *map(str, found or []),
        *dangling([thing["bom-ref"] for thing in things], targets + [edge["ref"] for edge in edges]),
        *purls(thing["purl"] for thing in things if "purl" in thing),
    ]


def spdx2(_, bill):
    try:
        document = JsonLikeDictParser().parse(bill)
    except SPDXParsingError as error:
        return error.get_messages()
    refs = [ref for package in bill["packages"] for ref in package.get("externalRefs", [])]
    return [
        *(message.validation_message for message in validate_full_spdx_document(document)),
        *by_schema(bill, "2.3-schema.json"),
        *purls(ref["referenceLocator"] for ref in refs if ref["referenceType"] == "purl"),
    ]


def spdx3_0(text, bill):
    found = by_schema(bill, "3.0-schema.json")
    objects = spdx3.SHACLObjectSet()
    try:
        spdx3.JSONLDDeserializer().read(io.BytesIO(text.encode()), objects)
    except (ValueError, TypeError, KeyError) as error:
        return [*found, f"not by the model: {error!r:.300}"]
    graph = bill["@graph"]
    references = []
    for element in graph:
        references += element.get("rootElement", []) + element.get("element", [])
        references += element.get("to", []) + element.get("createdBy", [])
        references += [element[name] for name in ("from", "suppliedBy") if name in element]
        references += [entry["value"] for entry in element.get("simplelicensing_customIdToUri", [])]
    return [
        *found,
        *(f"{id} is referred to but not there" for id in objects.missing_ids),
        *dangling([element["spdxId"] for element in graph if "spdxId" in element], references),
        *purls(e["software_packageUrl"] for e in graph if "software_packageUrl" in e),
    ]


def main():
    bad = False
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        bill = json.loads(text)
        check = cyclonedx if "bomFormat" in bill else spdx2 if "spdxVersion" in bill else spdx3_0
        for problem in check(text, bill):
            bad = True
            print(f"{path}: {problem}")
    return bad


sys.exit(main())
