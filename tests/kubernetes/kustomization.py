"""Builds a kustomization as kustomize does, as far as deploy/kubernetes uses it, and refuses what it does not know.

Debian 12 has no kustomize that knows components. kustomization_test.py holds this one to the real one, where there is one.
"""
import copy
import hashlib
import json
import os

import yaml

FIELDS = {"apiVersion", "kind", "resources", "components", "namespace", "nameSuffix", "labels", "patches", "images",
          "configMapGenerator"}
WITHOUT_NAMESPACE = {"Namespace"}


class Unbuildable(Exception):
    """The kustomization is wrong, or beyond what this file knows."""


class Resource:
    def __init__(self, document, generated=False):
        self.document = document
        self.generated = generated  # its name gets a hash of its contents

    @property
    def kind(self):
        return self.document["kind"]

    @property
    def name(self):
        return self.document["metadata"]["name"]


def refuse_others(given, known, where):
    others = set(given) - set(known)
    if others:
        raise Unbuildable("%s: %s is beyond what is known here" % (where, ", ".join(sorted(others))))


# --- Walks over what a resource holds.

def pod_specs(document):
    """The specs of all pods that the resource makes."""
    template = document.get("spec", {}).get("template") if document["kind"] in ("StatefulSet", "DaemonSet", "Job") else None
    return [template["spec"]] if template else []


def references(document):
    """(holder, key, kind): where the resource names another one of its namespace."""
    found = []
    for spec in pod_specs(document):
        if "serviceAccountName" in spec:
            found.append((spec, "serviceAccountName", "ServiceAccount"))
        for volume in spec.get("volumes", []):
            for source, key, kind in (("configMap", "name", "ConfigMap"), ("secret", "secretName", "Secret"),
                                      ("persistentVolumeClaim", "claimName", "PersistentVolumeClaim")):
                if source in volume:
                    found.append((volume[source], key, kind))
    if document["kind"] == "StatefulSet":
        found.append((document["spec"], "serviceName", "Service"))
    if document["kind"] == "Certificate":
        found.append((document["spec"]["issuerRef"], "name", "Issuer"))
    if document["kind"] == "Issuer" and "ca" in document["spec"]:
        found.append((document["spec"]["ca"], "secretName", "Secret"))
    return found


# --- What a kustomization may do to resources.

def apply_operation(document, operation, where):
    """One operation of a JSON patch."""
    refuse_others(operation, {"op", "path", "value"}, where)
    steps = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
    try:
        holder = document
        for step in steps[:-1]:
            holder = holder[int(step)] if isinstance(holder, list) else holder[step]
        last = steps[-1]
        if isinstance(holder, list):
            last = len(holder) if last == "-" and operation["op"] == "add" else int(last)
        if operation["op"] in ("replace", "remove"):
            holder[last]  # it must be there
        if operation["op"] == "remove":
            del holder[last]
        elif operation["op"] == "add" and isinstance(holder, list):
            holder.insert(last, copy.deepcopy(operation["value"]))
        elif operation["op"] in ("add", "replace"):
            holder[last] = copy.deepcopy(operation["value"])
        else:
            raise Unbuildable("%s: %s is beyond what is known here" % (where, operation["op"]))
    except (KeyError, IndexError, ValueError, TypeError):
        raise Unbuildable("%s: %s %s: there is no such place" % (where, operation["op"], operation["path"])) from None


def is_target(resource, target, where):
    refuse_others(target, {"kind", "name", "labelSelector"}, where)
    labels = resource.document["metadata"].get("labels", {})
    wanted = dict(pair.split("=") for pair in target["labelSelector"].split(",")) if "labelSelector" in target else {}
    return (target.get("kind", resource.kind) == resource.kind and target.get("name", resource.name) == resource.name
            and all(labels.get(key) == value for key, value in wanted.items()))


def patch(resources, given, where):
    refuse_others(given, {"target", "patch"}, where)
    targets = [resource for resource in resources if is_target(resource, given["target"], where)]
    if not targets:
        raise Unbuildable("%s: nothing is %s" % (where, given["target"]))
    for resource in targets:
        for operation in yaml.safe_load(given["patch"]):
            apply_operation(resource.document, operation, where)


def rename(resources, which, new_name):
    """Renames those of `resources` that `which` says, and what they call each other."""
    names = {(resource.kind, resource.name): new_name(resource) for resource in resources if which(resource)}
    for resource in resources:
        for holder, key, kind in references(resource.document):
            holder[key] = names.get((kind, holder[key]), holder[key])
        resource.document["metadata"]["name"] = names.get((resource.kind, resource.name), resource.name)


def set_namespace(resource, namespace):
    metadata = resource.document["metadata"]
    metadata["name" if resource.kind in WITHOUT_NAMESPACE else "namespace"] = namespace


def add_labels(resource, given, where):
    refuse_others(given, {"pairs", "includeSelectors"}, where)
    document, pairs = resource.document, given["pairs"]
    places = [document["metadata"].setdefault("labels", {})]
    if given.get("includeSelectors") and resource.kind != "ConfigMap":
        if resource.kind != "DaemonSet":
            raise Unbuildable("%s: selectors of a %s are beyond what is known here" % (where, resource.kind))
        places += [document["spec"]["selector"]["matchLabels"], document["spec"]["template"]["metadata"]["labels"]]
    for place in places:
        place.update(pairs)


def set_image(resource, given, where):
    refuse_others(given, {"name", "newName", "newTag"}, where)
    for spec in pod_specs(resource.document):
        for container in spec.get("initContainers", []) + spec["containers"]:
            if container["image"].split(":")[0] == given["name"]:
                container["image"] = "%s:%s" % (given["newName"], given["newTag"])


def generate_config_map(folder, given, where):
    refuse_others(given, {"name", "files"}, where)
    data = {os.path.basename(name): read(os.path.join(folder, name)) for name in given["files"]}
    return Resource({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": given["name"]}, "data": data}, generated=True)


def hash_of(config_map):
    """What kustomize puts behind its name, so that what it configures starts anew when it changes."""
    text = json.dumps({"data": config_map["data"], "kind": "ConfigMap", "name": ""},
                      separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, "\\u%04x" % ord(character))
    digits = hashlib.sha256(text.encode()).hexdigest()[:10]
    return digits.translate(str.maketrans("013ae", "ghkmt"))


# --- Building.

def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise Unbuildable("%s: %s" % (path, error.strerror)) from None


def accumulate(folder, kind, resources):
    """`resources` and those of `folder`, with all that its kustomization says done to them."""
    where = os.path.join(folder, "kustomization.yaml")
    given = yaml.safe_load(read(where))
    refuse_others(given, FIELDS, where)
    if given.get("kind") != kind:
        raise Unbuildable("%s: is no %s" % (where, kind))
    for name in given.get("resources", []):
        path = os.path.normpath(os.path.join(folder, name))
        if os.path.isdir(path):
            resources = resources + accumulate(path, "Kustomization", [])
        else:
            resources = resources + [Resource(document) for document in yaml.safe_load_all(read(path))]
    for name in given.get("components", []):
        resources = accumulate(os.path.normpath(os.path.join(folder, name)), "Component", resources)
    resources = resources + [generate_config_map(folder, one, where) for one in given.get("configMapGenerator", [])]
    for one in given.get("patches", []):
        patch(resources, one, where)
    if "nameSuffix" in given:
        rename(resources, lambda resource: True, lambda resource: resource.name + given["nameSuffix"])
    for resource in resources:
        if "namespace" in given:
            set_namespace(resource, given["namespace"])
        for one in given.get("labels", []):
            add_labels(resource, one, where)
        for one in given.get("images", []):
            set_image(resource, one, where)
    identities = [(resource.kind, resource.name) for resource in resources]
    twice = {identity for identity in identities if identities.count(identity) > 1}
    if twice:
        raise Unbuildable("%s: given twice: %s" % (where, sorted(twice)))
    return resources


def build(folder):
    """The documents of the kustomization in `folder`. Unbuildable: why not."""
    resources = accumulate(folder, "Kustomization", [])
    rename(resources, lambda resource: resource.generated, lambda resource: "%s-%s" % (resource.name, hash_of(resource.document)))
    return [resource.document for resource in resources]
