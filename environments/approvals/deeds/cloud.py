"""Removing what runs or is kept elsewhere: clusters, containers, buckets, whole stacks."""

from __future__ import annotations

from collections.abc import Sequence

from environments.approvals.command import Command
from environments.approvals.deeds.rule import Rules
from environments.approvals.options import Options
from environments.approvals.reading.names import names

_KINDS = frozenset(
    names(
        "ns namespace namespaces pv persistentvolume persistentvolumes pvc persistentvolumeclaim "
        "persistentvolumeclaims crd crds customresourcedefinition customresourcedefinitions node nodes no all "
        "deploy deployment deployments sts statefulset statefulsets secret secrets clusterrole "
        "clusterrolebinding storageclass sc svc service services"
    )
)
_GCLOUD_VALUED = ("--project", "--zone", "--region", "--account", "--configuration", "--format")
_REMOVES = "it removes what runs or is kept in a cloud"


def _built(command: Command) -> str | None:
    """Terraform and its kin."""
    words = [word.text for word in Options.of(command.args, ("-chdir",)).operands]
    if "destroy" in words or (not {"-destroy", "--destroy"}.isdisjoint(command.texts) and "apply" in words):
        return f"it destroys what it has built ({command.name} destroy)"
    forgets = words[:2] in (["state", "rm"], ["workspace", "delete"], ["stack", "rm"])
    return f"it forgets what it has built ({command.name} {' '.join(words[:2])})" if forgets else None


def _cluster(command: Command) -> str | None:
    valued = ("-n", "--namespace", "--context", "--cluster", "--kubeconfig", "-l", "--selector", "-f", "--filename")
    options = Options.of(command.args, valued)
    words = [word.text for word in options.operands]
    if any(name.startswith("dry-run") for name in options.names):
        return None
    if words[:1] == ["drain"]:
        return "it moves everything away from a node"
    if words[:1] not in (["delete"], ["replace"]):
        return None
    if words[0] == "replace":
        return "it removes and makes anew what runs in a cluster" if "force" in options.names else None
    kinds = {kind.partition("/")[0].partition(".")[0] for word in words[1:] for kind in word.split(",")}
    if options.has("A", "all", "all-namespaces") or not _KINDS.isdisjoint(kinds) or options.value("-f", "--filename"):
        return "it removes what runs or is kept in a cluster"
    return None


def _containers(command: Command) -> str | None:
    options = Options.of(command.args, ("-H", "--host", "--context", "-c"), first_ends=True)
    words = [word.text for word in options.operands]
    rest = Options.of(options.operands[2:])
    if words[:1] == ["compose"]:
        return _composed(words[1:])
    what, deed = (*words, "", "")[:2]
    if deed == "prune" and (what in ("system", "volume", "network", "builder") or rest.has("a", "all")):
        return f"it removes all that is not in use ({what} prune)"
    if what == "volume" and deed in ("rm", "remove"):
        return "it removes volumes with what is kept in them"
    if (what, deed) in (("swarm", "leave"), ("stack", "rm"), ("service", "rm"), ("node", "rm"), ("secret", "rm")):
        return f"it removes what a swarm runs ({what} {deed})"
    removes = what in ("rm", "rmi", "kill", "stop") or (
        what in ("container", "image") and deed in ("rm", "kill", "stop")
    )
    if removes and any(word.fed_by for word in options.operands):
        return "it removes or ends containers or images without naming them"
    return None


def _composed(words: Sequence[str]) -> str | None:
    volumes = "down" in words and not {"-v", "--volumes"}.isdisjoint(words)
    return "it removes volumes with what is kept in them" if volumes or ("rm" in words and "-v" in words) else None


def _compose(command: Command) -> str | None:
    return _composed(command.texts)


def _aws(command: Command) -> str | None:
    options = Options.of(command.args, ("--profile", "--region", "--output", "--endpoint-url"))
    service, deed = (*(word.text for word in options.operands), "", "")[:2]
    if "dryrun" in options.names or "dry-run" in options.names:
        return None
    if service == "s3":
        removes = (
            (deed == "rm" and "recursive" in options.names)
            or deed == "rb"
            or (deed == "sync" and "delete" in options.names)
        )
        return "it removes what is kept in a bucket" if removes else None
    gone = deed.startswith(("delete-", "terminate-", "deregister-", "purge-", "disable-", "schedule-key-deletion"))
    return f"{_REMOVES} (aws {service} {deed})" if gone else None


def _with_deed(command: Command) -> str | None:
    """Clients whose words say it, wherever they stand: `gcloud compute instances delete x`."""
    operands = {word.text for word in Options.of(command.args, _GCLOUD_VALUED).operands[:5]}
    found = sorted(one for one in operands if one in _DEEDS or one.startswith("delete-") or one.endswith(":delete"))
    return f"{_REMOVES} ({command.name} {found[0]})" if found else None


_DEEDS = frozenset(
    names("delete destroy remove purge terminate undefine apps:destroy pg:reset addons:destroy rm nuke deleteall")
)


def _buckets(command: Command) -> str | None:
    options = Options.of(command.args, ("-o", "-h"))
    words = [word.text for word in options.operands]
    first = words[0] if words else ""
    removes = (
        (first == "rm" and options.has("rR", "recursive")) or (first == "rb") or first in ("purge", "delete", "sync")
    )
    if first == "rsync":
        removes = options.has("d")
    return "it removes what is kept in a bucket" if removes and not options.has("", "dry-run") else None


def _charts(command: Command) -> str | None:
    words = [word.text for word in Options.of(command.args, ("-n", "--namespace", "--kube-context")).operands]
    removes = words[:1] in (["uninstall"], ["delete"], ["del"], ["un"])
    return "it removes what runs in a cluster (helm uninstall)" if removes else None


def _unpublished(command: Command) -> str | None:
    return "it removes what others may depend on" if command.texts[:1] in (("unpublish",), ("yank",)) else None


RULES: Rules = {
    **dict.fromkeys(("terraform", "tofu", "terragrunt", "pulumi", "cdk", "cdktf", "vagrant", "sst"), _built),
    **dict.fromkeys(("serverless", "sls", "copilot", "eb"), _with_deed),
    **dict.fromkeys(("kubectl", "oc", "k3s", "k"), _cluster),
    **dict.fromkeys(("docker", "podman", "nerdctl"), _containers),
    **dict.fromkeys(("docker-compose", "podman-compose"), _compose),
    "aws": _aws,
    **dict.fromkeys(
        names(
            "gcloud az doctl linode-cli hcloud ibmcloud oci heroku fly flyctl vercel netlify eksctl firebase virsh scw"
        ),
        _with_deed,
    ),
    **dict.fromkeys(("gsutil", "s3cmd", "mc", "rclone", "s5cmd"), _buckets),
    "helm": _charts,
    **dict.fromkeys(("npm", "cargo", "gem"), _unpublished),
}
