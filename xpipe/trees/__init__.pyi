"""The public names of `xpipe.trees`; `__init__.py` imports each on first use."""

from .calibration import hold_out as hold_out
from .calibration import make_calibrated as make_calibrated
from .forest import Forest as Forest
from .forest import make_forest as make_forest
from .model import LabelTree as LabelTree
from .options import TreeOptions as TreeOptions
from .planning import TreePlan as TreePlan
from .planning import Unit as Unit
from .planning import plan_forest as plan_forest
from .row_parts import UnitWeights as UnitWeights
from .training import Owners as Owners
from .training import train_unit as train_unit
from .training import train_unit_without as train_unit_without
from .training import unit_costs as unit_costs
from .training import unit_rows as unit_rows
from .training_data import TrainingData as TrainingData
from .training_data import prepare_data as prepare_data
