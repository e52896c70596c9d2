"""Exact similarity joins of Spark DataFrames.

Needs PySpark 4.1 or newer (``pip install simjoin[spark]``) and this package on every machine of the cluster.

* :func:`self_join`, :func:`join`: DataFrames in and out.
* :func:`plan`: what such a join would do, in words and in numbers.
* :class:`Cluster`, :class:`Node`: a cluster of CPUs and GPUs, and how work is divided between them.
* :func:`measure`: what the processors of a cluster are worth in this work.
* :func:`simulate`: what a join would take on a cluster that is not there. Also as a command:
  ``python -m simjoin.spark --help``.

How a join is divided is described in ``_layouts``; why no pair is lost, in the Rust crate ``simjoin-cluster``.
"""

from simjoin.spark._cluster import Cluster, Node
from simjoin.spark._costs import Units
from simjoin.spark._joins import Plan, join, measure, plan, self_join
from simjoin.spark._simulate import Prediction, simulate
from simjoin.spark._statistics import Statistics

__all__ = [
    "Cluster",
    "Node",
    "Plan",
    "Prediction",
    "Statistics",
    "Units",
    "join",
    "measure",
    "plan",
    "self_join",
    "simulate",
]
