"""The public names of `xpipe.grouping`; `__init__.py` imports each on first use."""

from .clustering import Partition as Partition
from .clustering import balanced_partition as balanced_partition
from .groups import binarised as binarised
from .groups import given_groups as given_groups
from .groups import kmeans_groups as kmeans_groups
from .groups import likeness as likeness
from .groups import membership_of_ids as membership_of_ids
from .groups import random_groups as random_groups
from .groups import spread_labels as spread_labels
