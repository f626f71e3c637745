"""What pods are allowed, what they ask for, and whether that suits the programs in them."""
import re

from kustomization import pod_specs
from references import CONTROLLERS, configuration_of, containers, named, of_kind, title

UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
LOST_NODE = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
DEVICE_RESOURCES = {"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe"}
FILES_OF_A_SECRET = {"certificate": "tls.crt", "key": "tls.key", "authority": "ca.crt"}
# What makes a pod a job's; in all else the pods of the job are those of the daemons.
OF_A_JOB = {("restartPolicy",), ("tolerations",), ("affinity",), ("initContainers", "env"), ("containers", "command")}


def bytes_of(text):
    number, unit = re.fullmatch(r"([0-9]+)([KMG]iB?)?", str(text)).groups()
    return int(number) * UNITS[unit or ""]


def lax_pods(documents):
    """Pods that are allowed more than Kubernetes' profile "restricted", a read-only root and no token."""
    found = []
    for document in of_kind(documents, *CONTROLLERS):
        spec = pod_specs(document)[0]
        own = spec["securityContext"]
        if not (own.get("runAsNonRoot") and own.get("runAsUser", 0) > 0 and own.get("seccompProfile") == {"type": "RuntimeDefault"}):
            found.append("%s: runs as root, or without a seccomp profile" % title(document))
        if spec.get("automountServiceAccountToken") is not False:
            found.append("%s: has a token" % title(document))
        if any("hostPath" in volume for volume in spec["volumes"]) or spec.get("hostPID") or spec.get("hostIPC"):
            found.append("%s: reaches into its node" % title(document))
        for container in containers(spec):
            its = container.get("securityContext", {})
            if its != {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}:
                found.append("%s: %s: is allowed too much" % (title(document), container["name"]))
    for account in of_kind(documents, "ServiceAccount"):
        if account.get("automountServiceAccountToken") is not False:
            found.append("%s: has a token" % title(account))
    return found


def boundless_containers(documents):
    """Containers that do not say what they need, or have no limit of memory."""
    return ["%s: %s: requests %s, limits %s" % (title(document), container["name"], its.get("requests"), its.get("limits"))
            for document in of_kind(documents, *CONTROLLERS) for container in containers(pod_specs(document)[0])
            for its in [container.get("resources", {})]
            if not {"cpu", "memory"} <= set(its.get("requests", {})) or "memory" not in its.get("limits", {})]


def late_movers(documents):
    """Pods that stay for minutes on a node that is gone, although another node could have them; those of daemons cannot move."""
    return ["%s: stays on a node that is gone" % title(document) for document in of_kind(documents, "StatefulSet", "Job")
            if LOST_NODE != {one["key"] for one in pod_specs(document)[0]["tolerations"]
                             if one["effect"] == "NoExecute" and one.get("tolerationSeconds", 300) <= 30}]


def hasty_starts(documents):
    """Coordinators that are ended before they have read a large store, which they do before they listen."""
    return ["%s: may take %d s to start" % (title(document), seconds) for document in of_kind(documents, "StatefulSet")
            for probe in [pod_specs(document)[0]["containers"][0].get("startupProbe", {})]
            for seconds in [probe.get("periodSeconds", 10) * probe.get("failureThreshold", 3)] if seconds < 3600]


def unwritable_places(documents):
    """Paths that a program writes to and that are on the read-only root or a read-only volume."""
    found = []
    for document in of_kind(documents, *CONTROLLERS):
        spec = pod_specs(document)[0]
        given = configuration_of(documents, document) or {}
        program = spec["containers"][0]
        wanted = [(program, given["state_directory"])] if "state_directory" in given else []
        wanted += [(program, one["value"]) for one in program.get("env", []) if one["name"] == "XDG_CACHE_HOME"]
        wanted += [(program, "/tmp")] + [(one, "/run/medley") for one in spec.get("initContainers", [])]
        for container, path in wanted:
            if not any((path + "/").startswith(mount["mountPath"] + "/") and not mount.get("readOnly")
                       for mount in container["volumeMounts"]):
                found.append("%s: %s cannot be written" % (title(document), path))
    return found


def overfull_agents(documents):
    """Agents that offer more memory than their pod has, and other devices than it is given."""
    found = []
    for document in of_kind(documents, "DaemonSet", "Job"):
        spec, given = pod_specs(document)[0], configuration_of(documents, document) or {}
        limits = spec["containers"][0]["resources"]["limits"]
        shared = sum(bytes_of(volume["emptyDir"]["sizeLimit"]) for volume in spec["volumes"]
                     if volume.get("emptyDir", {}).get("medium") == "Memory")
        processors = [device for device in given.get("devices", []) if device["backend"] == "cpu"]
        offered = sum(bytes_of(device["memory_bytes"]) for device in processors)
        offered += bytes_of(given.get("host_memory_bytes", limits["memory"])) + shared
        if offered > bytes_of(limits["memory"]):
            found.append("%s: offers %d bytes and may have %d" % (title(document), offered, bytes_of(limits["memory"])))
        cards = sum(int(number) for name, number in limits.items() if name in DEVICE_RESOURCES)
        listed = len(given.get("devices", [])) - len(processors)
        if cards != listed:
            found.append("%s: is given %d devices and lists %d" % (title(document), cards, listed))
    return found


def shared_nodes(documents):
    """Daemons that may meet on a node: both would offer its processor, or take its name."""
    daemons = of_kind(documents, "DaemonSet")
    labels = [set(pod_specs(one)[0].get("nodeSelector", {})) for one in daemons]
    found = []
    for daemon, own in zip(daemons, labels):
        terms = pod_specs(daemon)[0].get("affinity", {}).get("nodeAffinity", {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [{}])
        shunned = {one["key"] for one in terms[0].get("matchExpressions", []) if one["operator"] == "DoesNotExist"}
        others = set().union(*labels) - own
        if not own and not others <= shunned:
            found.append("%s: may run where others do: %s" % (title(daemon), ", ".join(sorted(others - shunned))))
    return found


def misplaced_settings(documents):
    """Settings of a network that pods do not have, and pods in their node's network where the namespace forbids it."""
    enforced = of_kind(documents, "Namespace")[0]["metadata"]["labels"].get("pod-security.kubernetes.io/enforce")
    found = []
    for document in of_kind(documents, *CONTROLLERS):
        spec = pod_specs(document)[0]
        if not spec.get("hostNetwork"):
            continue
        if spec["securityContext"].get("sysctls"):
            found.append("%s: may not change its node's network" % title(document))
        if spec.get("dnsPolicy") != "ClusterFirstWithHostNet":
            found.append("%s: cannot look up the coordinator" % title(document))
        if enforced != "privileged":
            found.append("%s: the namespace refuses the node's network" % title(document))
    return found


def futile_budgets(documents):
    """Budgets of disruptions that no drain can keep."""
    found = []
    for budget in of_kind(documents, "PodDisruptionBudget"):
        least = budget["spec"].get("minAvailable", 0)
        for job in of_kind(documents, "Job"):
            if least >= job["spec"]["parallelism"] and budget["metadata"]["name"] == job["metadata"]["name"]:
                found.append("%s: lets nothing be moved" % title(budget))
    return found


def strange_identities(documents):
    """Daemons whose role, name or host is not the one that their certificate says, and files of it that their Secret has not, or not there."""
    made = {one["spec"]["secretName"]: one["spec"] for one in of_kind(documents, "Certificate")}
    found = []
    for document in of_kind(documents, *CONTROLLERS):
        spec, tls = pod_specs(document)[0], (configuration_of(documents, document) or {}).get("tls", {})
        mounts = {mount["name"]: mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
        volumes = {mounts.get(one["name"]): one["secret"]["secretName"] for one in spec["volumes"] if "secret" in one}
        role = "coordinator" if document["kind"] == "StatefulSet" else "agent"
        for field, path in tls.items():
            folder, _, file = path.rpartition("/")
            if volumes.get(folder) != role + "-tls" or file != FILES_OF_A_SECRET[field]:
                found.append("%s: tls.%s: %s is not in the Secret %s-tls" % (title(document), field, path, role))
        secret = made.get(role + "-tls")
        # Pods of one Secret run on many nodes.
        name = {"coordinator": "coordinator", "agent": "*"}[role]
        if secret and (secret["subject"]["organizations"], secret["commonName"]) != (["medley:" + role], name):
            found.append("%s: its certificate is of %s, %s" % (title(document), secret["subject"]["organizations"], secret["commonName"]))
        # Prometheus and browsers look at hosts alone.
        if secret and role not in secret.get("dnsNames", []):
            found.append("%s: its certificate is not for the host %s" % (title(document), role))
        if secret and not {"server auth", "client auth"} <= set(secret["usages"]):
            found.append("%s: its certificate is for %s" % (title(document), secret["usages"]))
    return found


def differences(one, other, path=()):
    """Where two documents differ: paths without indices."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {found for key in {*one, *other} for found in differences(one.get(key), other.get(key), path + (key,))}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return {found for a, b in zip(one, other) for found in differences(a, b, path)}
    return set() if one == other else {path}


def strange_jobs(job_documents, daemon_documents):
    """Where the pods of the job differ from those of the daemons without need."""
    job, daemon = named(job_documents, "Job", "agent-queued"), named(daemon_documents, "DaemonSet", "agent-cpu")
    found = differences(pod_specs(job)[0], pod_specs(daemon)[0]) - {("volumes", "configMap", "name")}
    return ["Job agent-queued: differs from the daemons in %s" % ".".join(path) for path in sorted(found)
            if not any(path[:len(prefix)] == prefix for prefix in OF_A_JOB)]


CHECKS = (lax_pods, boundless_containers, late_movers, hasty_starts, unwritable_places, overfull_agents, shared_nodes, misplaced_settings,
          futile_budgets, strange_identities)
