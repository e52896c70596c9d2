"""Exact similarity joins of Spark DataFrames.

Needs PySpark 4.1 or newer (``pip install simjoin[spark]``) and this package on every machine of the cluster.

* :func:`self_join`, :func:`join`: DataFrames in and out.
* :func:`plan`: the plan of a join, as text and as numbers.
* :class:`Cluster`, :class:`Node`: a cluster of CPUs and GPUs, and how work is divided between them.
* :func:`measure`: the relative speed of the processors of a cluster.
* :func:`simulate`: the predicted time of a join on any cluster. Also as a command:
  ``python -m simjoin.spark --help``.

``_layouts`` describes how a join is divided. The Rust crate ``simjoin-cluster`` proves that no pair is lost.
"""

from simjoin.spark._cluster import Cluster, Node
from simjoin.spark._costs import CostTable
from simjoin.spark._joins import Plan, join, measure, plan, self_join
from simjoin.spark._simulate import Prediction, simulate
from simjoin.spark._statistics import Statistics

__all__ = [
    "Cluster",
    "CostTable",
    "Node",
    "Plan",
    "Prediction",
    "Statistics",
    "join",
    "measure",
    "plan",
    "self_join",
    "simulate",
]
