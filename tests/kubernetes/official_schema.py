"""Holds manifests against the types of Kubernetes' own OpenAPI document, as the official Python client carries them.

Debian 12's python3-kubernetes is of Kubernetes 1.22. Fields that are younger, and what is used of cert-manager's types, are in NEWER, by
hand and by the same rules.
"""
import re

from kubernetes import client

# type: {field: type}
NEWER = {
    "V1Probe": {"grpc": "GRPCAction"},
    "GRPCAction": {"port": "int", "service": "str"},
    "CertManagerV1Issuer": {"apiVersion": "str", "kind": "str", "metadata": "V1ObjectMeta", "spec": "IssuerSpec"},
    "IssuerSpec": {"selfSigned": "SelfSigned", "ca": "IssuerOfSecret"},
    "SelfSigned": {"crlDistributionPoints": "list[str]"},
    "IssuerOfSecret": {"secretName": "str"},
    "CertManagerV1Certificate": {"apiVersion": "str", "kind": "str", "metadata": "V1ObjectMeta", "spec": "CertificateSpec"},
    "CertificateSpec": {
        "secretName": "str", "issuerRef": "IssuerReference", "commonName": "str", "subject": "CertificateSubject", "dnsNames": "list[str]",
        "ipAddresses": "list[str]", "isCA": "bool", "duration": "str", "usages": "list[str]", "privateKey": "PrivateKey"},
    "IssuerReference": {"name": "str", "kind": "str", "group": "str"},
    "CertificateSubject": {"organizations": "list[str]"},
    "PrivateKey": {"algorithm": "str", "size": "int", "rotationPolicy": "str"},
}
NEWER_REQUIRED = {
    "GRPCAction": {"port"}, "CertManagerV1Issuer": {"spec"}, "CertManagerV1Certificate": {"spec"}, "IssuerOfSecret": {"secretName"},
    "CertificateSpec": {"secretName", "issuerRef"}, "IssuerReference": {"name"},
}

SCALARS = {"str": str, "int": int, "bool": bool, "float": (int, float)}
QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")
# Maps to quantities, which the document knows as maps to text.
QUANTITIES = re.compile(r"\.(requests|limits)$|\.sizeLimit$")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
LABEL_KEY = re.compile(r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


def snake_case(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def type_of(api_version, kind):
    """The client's class of such a resource, or None if there is none: the API of that version makes no such kind."""
    group, _, version = api_version.rpartition("/")
    if group == "cert-manager.io":
        return "CertManager%s%s" % (version.capitalize(), kind) if "CertManager%s%s" % (version.capitalize(), kind) in NEWER else None
    group = group.replace(".k8s.io", "").replace(".authorization", "Authorization") or "core"
    api = getattr(client, "%s%sApi" % (group[0].upper() + group[1:], version.capitalize()), None)
    makes = api is not None and (hasattr(api, "create_namespaced_" + snake_case(kind)) or hasattr(api, "create_" + snake_case(kind)))
    return version.capitalize() + kind if makes else None


def fields_of(type_name):
    """What the type has: {name in manifests: type}."""
    of_package = getattr(client, type_name, None)
    known = {}
    if of_package is not None:
        known = {of_package.attribute_map[key]: its for key, its in of_package.openapi_types.items()}
    return {**known, **NEWER.get(type_name, {})}


def required_of(type_name):
    """What the client refuses to be without."""
    of_package = getattr(client, type_name, None)
    if of_package is None:
        return NEWER_REQUIRED.get(type_name, set())
    required = set()
    empty = of_package(local_vars_configuration=lenient())
    empty.local_vars_configuration = client.Configuration()
    for key, field in of_package.attribute_map.items():
        try:
            setattr(empty, key, None)
        except ValueError:
            required.add(field)
    return required


def lenient():
    configuration = client.Configuration()
    configuration.client_side_validation = False
    return configuration


def objections_to_scalar(value, type_name, where):
    wanted = SCALARS[type_name]
    if not isinstance(value, wanted) or isinstance(value, bool) != (type_name == "bool"):
        return ["%s: %r is no %s" % (where, value, type_name)]
    if QUANTITIES.search(where.rpartition("[")[0] or where) and not QUANTITY.fullmatch(value):
        return ["%s: %r is no quantity" % (where, value)]
    return []


def objections_to_value(value, type_name, where):
    if type_name == "object":
        return [] if isinstance(value, (str, int)) and not isinstance(value, bool) else ["%s: is no number or text" % where]
    if type_name == "datetime":
        return ["%s: is for the server to fill in" % where]
    if type_name in SCALARS:
        return objections_to_scalar(value, type_name, where)
    if type_name.startswith("list["):
        if not isinstance(value, list):
            return ["%s: is no list" % where]
        return [found for index, one in enumerate(value)
                for found in objections_to_value(one, type_name[5:-1], "%s[%d]" % (where, index))]
    if type_name.startswith("dict("):
        if not isinstance(value, dict):
            return ["%s: is no map" % where]
        return [found for key, one in value.items()
                for found in objections_to_value(one, type_name[5:-1].split(", ")[1], "%s[%s]" % (where, key))]
    return objections_to_message(value, type_name, where)


def objections_to_message(value, type_name, where):
    if not isinstance(value, dict):
        return ["%s: is no %s" % (where, type_name)]
    fields = fields_of(type_name)
    found = ["%s.%s: %s has no such field" % (where, key, type_name) for key in value if key not in fields]
    found += ["%s.%s: is required" % (where, key) for key in sorted(required_of(type_name)) if value.get(key) is None]
    for key, one in value.items():
        if key in fields:
            found += objections_to_value(one, fields[key], "%s.%s" % (where, key))
    if type_name == "V1ObjectMeta":
        found += objections_to_metadata(value, where)
    return found


def objections_to_metadata(value, where):
    found = []
    if "name" in value and not NAME.fullmatch(str(value["name"])):
        found.append("%s.name: %r is no name" % (where, value["name"]))
    for key, one in (value.get("labels") or {}).items():
        if not LABEL_KEY.fullmatch(key) or not LABEL_VALUE.fullmatch(str(one)):
            found.append("%s.labels: %s: %s is no label" % (where, key, one))
    return found


def objections(document):
    """What Kubernetes' document says against a manifest, one line each."""
    api_version, kind = document.get("apiVersion", ""), document.get("kind", "")
    where = "%s %s" % (kind, document.get("metadata", {}).get("name", ""))
    type_name = type_of(api_version, kind)
    if type_name is None:
        return ["%s: %s has no such kind" % (where, api_version)]
    return objections_to_message(document, type_name, where)
