"""How is work divided between the CPUs and GPUs of a cluster?

The levels of heterogeneity are those of definition 2 of *Set Similarity Joins on Heterogeneous Clusters*
(Silva and Ribeiro). The division of work is its definition 3: CPUs and GPUs get work in proportion to the mean
memory bandwidth of their kinds. Rates that are given or measured (:func:`simjoin.spark.measure`) replace the
bandwidths. Rates are summed over all processors, so they also reflect the *number* of processors of each kind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from simjoin._errors import UsageError

HOMOGENEOUS = "homogeneous"
HETEROGENEOUS = "heterogeneous"
HIGHLY_HETEROGENEOUS = "highly heterogeneous"
MIXED = "mixed"


@dataclass(frozen=True)
class Node:
    """One or several equal nodes of a cluster.

    :param cores: tasks that a node runs on CPU cores at a time; 0 if it has none for joins
    :param gpus: tasks that a node runs on GPUs at a time
    :param cpu_bandwidth: memory bandwidth of the CPU in GB/s
    :param gpu_bandwidth: memory bandwidth of a GPU in GB/s
    :param cpu_rate: speed of one core, relative to the machine that costs were measured on
    :param gpu_rate: speed of one GPU, in the same unit
    :param count: number of such nodes
    """

    cores: int = 1
    gpus: int = 0
    cpu_bandwidth: float | None = None
    gpu_bandwidth: float | None = None
    cpu_rate: float | None = None
    gpu_rate: float | None = None
    count: int = 1

    def __post_init__(self) -> None:
        if self.cores < 0 or self.gpus < 0 or self.count < 1 or self.cores + self.gpus == 0:
            raise UsageError(
                f"a node with {self.cores} cores and {self.gpus} GPUs, {self.count} times; "
                "expected at least one processor and one node"
            )
        for name in ("cpu_bandwidth", "gpu_bandwidth", "cpu_rate", "gpu_rate"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"{name} {value!r} is not above 0")


@dataclass(frozen=True)
class Cluster:
    """Nodes, and the network between them.

    >>> xeon = Node(cores=8, gpus=1, cpu_bandwidth=68, gpu_bandwidth=288, count=2)
    >>> epyc = Node(cores=8, gpus=1, cpu_bandwidth=204.8, gpu_bandwidth=897)
    >>> Cluster([xeon]).level, Cluster([xeon, epyc]).level
    ('heterogeneous', 'highly heterogeneous')
    >>> [round(share, 2) for share in Cluster([xeon]).workload()]
    [0.19, 0.81]
    >>> [round(share, 3) for share in Cluster([xeon, epyc]).workload()]
    [0.187, 0.813]

    :param nodes: the nodes
    :param network: bytes that a node can send, and receive, in a second
    """

    nodes: tuple[Node, ...]
    network: float = 1.25e9

    def __init__(self, nodes: list[Node] | tuple[Node, ...], network: float = 1.25e9) -> None:
        if not nodes:
            raise UsageError("a cluster needs at least one node")
        if not network > 0:
            raise UsageError(f"network {network!r} is not above 0")
        object.__setattr__(self, "nodes", tuple(nodes))
        object.__setattr__(self, "network", float(network))

    @property
    def level(self) -> str:
        """``homogeneous`` (one type of processor), ``heterogeneous`` (CPUs and GPUs in all nodes, which are
        equal), ``highly heterogeneous`` (nodes that differ), or ``mixed`` if only some nodes have both, for
        which there is no definition.
        """
        types = {
            kind for node in self.nodes for kind in (("cpu",) * node.cores + ("gpu",) * node.gpus)
        }
        if len(types) == 1:
            return HOMOGENEOUS
        if any(node.cores == 0 or node.gpus == 0 for node in self.nodes):
            return MIXED
        cpus = {(node.cpu_bandwidth, node.cpu_rate) for node in self.nodes}
        gpus = {(node.gpu_bandwidth, node.gpu_rate) for node in self.nodes}
        return HIGHLY_HETEROGENEOUS if len(cpus) > 1 or len(gpus) > 1 else HETEROGENEOUS

    @property
    def cores(self) -> int:
        """Tasks that all nodes together run on CPU cores at a time."""
        return sum(node.cores * node.count for node in self.nodes)

    @property
    def gpus(self) -> int:
        """Tasks that all nodes together run on GPUs at a time."""
        return sum(node.gpus * node.count for node in self.nodes)

    @property
    def machines(self) -> int:
        """The number of nodes."""
        return sum(node.count for node in self.nodes)

    def workload(self) -> tuple[float, float]:
        """Returns the shares of the work for CPUs and for GPUs."""
        if self.gpus == 0:
            return 1.0, 0.0
        if self.cores == 0:
            return 0.0, 1.0
        rates = self._rates()
        cpu, gpu = rates if rates else self._bandwidths()
        return cpu / (cpu + gpu), gpu / (cpu + gpu)

    def _rates(self) -> tuple[float, float] | None:
        cpu = gpu = 0.0
        for node in self.nodes:
            if (node.cores and node.cpu_rate is None) or (node.gpus and node.gpu_rate is None):
                return None
            cpu += node.cores * node.count * (node.cpu_rate or 0.0)
            gpu += node.gpus * node.count * (node.gpu_rate or 0.0)
        return cpu, gpu

    def _bandwidths(self) -> tuple[float, float]:
        # The mean over distinct specifications, as in definition 3.
        cpus = {node.cpu_bandwidth for node in self.nodes if node.cores}
        gpus = {node.gpu_bandwidth for node in self.nodes if node.gpus}
        if None in cpus or None in gpus:
            raise UsageError(
                "how much CPUs and GPUs can do is not known: give cpu_bandwidth and gpu_bandwidth, or "
                "cpu_rate and gpu_rate, of every node"
            )
        cpu_values = [value for value in cpus if value is not None]
        gpu_values = [value for value in gpus if value is not None]
        return sum(cpu_values) / len(cpu_values), sum(gpu_values) / len(gpu_values)

    def with_rates(self, cpu_rate: float, gpu_rate: float | None = None) -> Cluster:
        """Returns the same cluster with these rates in all nodes."""
        nodes = [replace(node, cpu_rate=cpu_rate, gpu_rate=gpu_rate) for node in self.nodes]
        return Cluster(nodes, self.network)

    def slots(self, gpu: bool) -> list[float]:
        """Returns the rates of all tasks that run at the same time, fastest first."""
        cpu_share, gpu_share = self.workload() if self.cores and self.gpus else (1.0, 1.0)
        # Without measured rates, the rates of the nodes count.
        worth = 1.0
        if self.cores and self.gpus:
            worth = (gpu_share / self.gpus) / (cpu_share / self.cores)
        rates = []
        for node in self.nodes:
            if gpu:
                rate = node.gpu_rate or worth * (node.cpu_rate or 1.0)
                rates += [rate] * (node.gpus * node.count)
            else:
                rates += [node.cpu_rate or 1.0] * (node.cores * node.count)
        return sorted(rates, reverse=True)
