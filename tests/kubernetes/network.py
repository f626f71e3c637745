"""Who listens where: manifests against each other, and against the programs' configurations and defaults."""
import re

from kustomization import pod_specs
from references import CONTROLLERS, configuration_of, controllers_selected, of_kind, title


def container_ports(document):
    """{name: number} of the ports of a controller's pods."""
    return {port["name"]: port["containerPort"] for container in pod_specs(document)[0]["containers"] for port in container["ports"]}


def listen_ports(given):
    """{port's name: number} of a configuration."""
    addresses = {"grpc": given["listen_address"], "https" if "tls" in given else "http": given.get("http_address")}
    return {name: int(address.rpartition(":")[2]) for name, address in addresses.items() if address}


def worker_ports(document):
    """The range of ports that the system gives to programs of such pods, or None if it is the node's."""
    for one in pod_specs(document)[0]["securityContext"].get("sysctls", []):
        if one["name"] == "net.ipv4.ip_local_port_range":
            return tuple(int(number) for number in one["value"].split())
    return None


def closed_services(documents):
    """Services whose ports their pods do not have, or do not listen at."""
    found = []
    for service in of_kind(documents, "Service"):
        for controller in controllers_selected(documents, service["spec"]["selector"]):
            ports = container_ports(controller)
            for port in service["spec"]["ports"]:
                if ports.get(port["targetPort"], port["targetPort"]) not in ports.values():
                    found.append("%s: %s has no port %s" % (title(service), title(controller), port["targetPort"]))
    return found


def wrong_probes(documents):
    """Programs without all three probes, and probes of another port than the one that speaks as they do: Kubernetes' gRPC probes speak no
    TLS."""
    found = []
    for document in of_kind(documents, *CONTROLLERS):
        its = configuration_of(documents, document) or {}
        port = container_ports(document).get("https" if "tls" in its else "grpc")
        wanted = {"httpGet": {"path": "/healthz", "port": port, "scheme": "HTTPS"}} if "tls" in its else {"grpc": {"port": port}}
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            probe = pod_specs(document)[0]["containers"][0].get(name, {})
            if {key: probe.get(key) for key in wanted} != wanted:
                found.append("%s: %s is not %s" % (title(document), name, wanted))
    return found


def wrong_listeners(documents):
    """Pods whose program is configured to listen elsewhere than where its pod says."""
    found = []
    for document in of_kind(documents, *CONTROLLERS):
        its = configuration_of(documents, document)
        if its is None:
            found.append("%s: has not one configuration" % title(document))
        elif listen_ports(its) != container_ports(document):
            found.append("%s: listens at %s, its ports are %s" % (title(document), listen_ports(its), container_ports(document)))
    return found


def wrong_dials(documents):
    """Agents that dial anything but the coordinator's Service."""
    dialled = ["%s:%d" % (service["metadata"]["name"], port["port"]) for service in of_kind(documents, "Service")
               if service["spec"].get("clusterIP") != "None" for port in service["spec"]["ports"]]
    found = []
    for document in of_kind(documents, *CONTROLLERS):
        given = (configuration_of(documents, document) or {}).get("coordinator_address")
        if given is not None and given not in dialled:
            found.append("%s: dials %s; there is %s" % (title(document), given, dialled))
    return found


def wrong_policies(documents):
    """Network policies that let through ports at which nobody listens, and ports that nothing is let through to."""
    found, let_through = [], {}
    for policy in of_kind(documents, "NetworkPolicy"):
        selected = controllers_selected(documents, policy["spec"]["podSelector"].get("matchLabels", {}))
        for port in (port for rule in policy["spec"].get("ingress", []) for port in rule["ports"]):
            for controller in selected:
                span = (port["port"], port.get("endPort", port["port"]))
                let_through.setdefault(title(controller), set()).add(span)
                # Policies do not hold for pods in the network of their nodes.
                if span not in spans(controller) and not pod_specs(controller)[0].get("hostNetwork"):
                    found.append("%s: %s does not listen at %s" % (title(policy), title(controller), span))
    for controller in of_kind(documents, *CONTROLLERS):
        for span in spans(controller) - let_through.get(title(controller), set()):
            found.append("%s: no policy lets anything through to %s" % (title(controller), span))
    return found


def spans(controller):
    """(first, last) of the ports at which pods of the controller are reached."""
    own = {(number, number) for number in container_ports(controller).values()}
    workers = worker_ports(controller)
    return own | ({workers} if workers else set())


def open_pods(documents):
    """Whether something keeps what no policy allows from reaching pods."""
    denies = [policy for policy in of_kind(documents, "NetworkPolicy")
              if policy["spec"]["podSelector"] == {} and "Ingress" in policy["spec"]["policyTypes"] and not policy["spec"].get("ingress")]
    return [] if denies else ["there is no policy that denies what the others do not allow"]


def default_port(header):
    """Where the coordinator listens by default, from runtime/wire/address.h."""
    return int(re.search(r"kCoordinatorPort = ([0-9]+);", header).group(1))


CHECKS = (closed_services, wrong_probes, wrong_listeners, wrong_dials, wrong_policies, open_pods)
