"""What the resources of one installation call each other by: names, labels, files."""
import os

import yaml

from kustomization import pod_specs, references

CONTROLLERS = ("StatefulSet", "DaemonSet", "Job")
# Pods that users bring, by what the README tells them to label them with.
BROUGHT = [{"app.kubernetes.io/name": "medley", "app.kubernetes.io/component": "client"}]
# Secrets that users bring, where no Certificate makes them.
BROUGHT_SECRETS = {"coordinator-tls", "agent-tls"}


def title(document):
    return "%s %s" % (document["kind"], document["metadata"]["name"])


def of_kind(documents, *kinds):
    return [document for document in documents if document["kind"] in kinds]


def named(documents, kind, name):
    return next((document for document in of_kind(documents, kind) if document["metadata"]["name"] == name), None)


def template_labels(document):
    return document["spec"]["template"]["metadata"]["labels"]


def selects(labels, wanted):
    return all(labels.get(key) == value for key, value in wanted.items())


def controllers_selected(documents, wanted):
    return [one for one in of_kind(documents, *CONTROLLERS) if selects(template_labels(one), wanted)]


def containers(spec):
    return spec.get("initContainers", []) + spec["containers"]


def secrets(documents):
    """The names of those that there are: made by cert-manager, or else brought."""
    return {one["spec"]["secretName"] for one in of_kind(documents, "Certificate")} or BROUGHT_SECRETS


def missing_names(documents):
    """Resources that are named and are not there."""
    found = []
    for document in documents:
        for holder, key, kind in references(document):
            there = holder[key] in secrets(documents) if kind == "Secret" else named(documents, kind, holder[key]) is not None
            if not there:
                found.append("%s: there is no %s %s" % (title(document), kind, holder[key]))
    return found


def missing_volumes(documents):
    """Volumes that a container mounts and its pod has not, or that a pod has and nobody mounts."""
    found = []
    for document in of_kind(documents, *CONTROLLERS):
        spec = pod_specs(document)[0]
        has = {volume["name"] for volume in spec.get("volumes", [])}
        has |= {claim["metadata"]["name"] for claim in document["spec"].get("volumeClaimTemplates", [])}
        mounted = {mount["name"] for container in containers(spec) for mount in container["volumeMounts"]}
        found += ["%s: volume %s" % (title(document), name) for name in sorted(has ^ mounted)]
    return found


def missing_files(documents):
    """Files under /etc/medley that a command names and the ConfigMap that is mounted there has not."""
    found = []
    for document in of_kind(documents, *CONTROLLERS):
        spec = pod_specs(document)[0]
        for container in containers(spec):
            for path in words(container["command"]):
                if os.path.dirname(path) == "/etc/medley" and os.path.basename(path) not in configuration_files(documents, spec, container):
                    found.append("%s: %s: there is no %s" % (title(document), container["name"], path))
    return found


def words(command):
    return " ".join(command).split()


def configuration_files(documents, spec, container):
    """The files of the ConfigMap that the container has at /etc/medley."""
    volume = next((mount["name"] for mount in container["volumeMounts"] if mount["mountPath"] == "/etc/medley"), None)
    for one in spec["volumes"]:
        if one["name"] == volume and "configMap" in one:
            config_map = named(documents, "ConfigMap", one["configMap"]["name"])
            return config_map["data"] if config_map else {}
    return {}


def configuration_of(documents, document):
    """By field, how the program is configured that the controller's pods run: by its file, and by variables, which go before it. None:
    it has not one file."""
    spec = pod_specs(document)[0]
    texts = [text for container in containers(spec) for text in configuration_files(documents, spec, container).values()]
    if len(texts) != 1:
        return None
    given = yaml.safe_load(texts[0])
    for one in spec["containers"][0].get("env", []):
        prefix, _, field = one["name"].partition("_")
        if prefix == "MEDLEY":
            given[field.partition("_")[2].lower()] = yaml.safe_load(one["value"])
    return given


def unmatched_selectors(documents):
    """Selectors that select nothing; of controllers, not their own pods."""
    found = []
    for document in of_kind(documents, "StatefulSet", "DaemonSet"):
        if not selects(template_labels(document), document["spec"]["selector"]["matchLabels"]):
            found.append("%s: does not select its own pods" % title(document))
    for document in of_kind(documents, "DaemonSet"):
        if controllers_selected(documents, document["spec"]["selector"]["matchLabels"]) != [document]:
            found.append("%s: selects pods of others" % title(document))
    for document in of_kind(documents, "Service", "PodDisruptionBudget", "NetworkPolicy"):
        for wanted in selectors(document):
            if not controllers_selected(documents, wanted) and wanted not in BROUGHT:
                found.append("%s: %s selects nothing" % (title(document), wanted))
    return found


def selectors(document):
    spec = document["spec"]
    if document["kind"] == "Service":
        return [spec["selector"]]
    if document["kind"] == "PodDisruptionBudget":
        return [spec["selector"]["matchLabels"]]
    peers = [peer["podSelector"] for rule in spec.get("ingress", []) for peer in rule["from"] if "podSelector" in peer]
    return [one.get("matchLabels", {}) for one in [spec["podSelector"], *peers]]


def strays(documents):
    """What is not in the one namespace of the installation."""
    names = [document["metadata"]["name"] for document in of_kind(documents, "Namespace")]
    if len(names) != 1:
        return ["there are %d namespaces" % len(names)]
    return ["%s: is not in %s" % (title(document), names[0]) for document in documents
            if document["kind"] != "Namespace" and document["metadata"].get("namespace") != names[0]]


CHECKS = (missing_names, missing_volumes, missing_files, unmatched_selectors, strays)
