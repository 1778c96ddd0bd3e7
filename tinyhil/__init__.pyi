from tinyhil import errors as errors
from tinyhil.harness.api import Compiled as Compiled
from tinyhil.harness.api import Model as Model
from tinyhil.harness.api import compare as compare
from tinyhil.harness.api import load as load
from tinyhil.harness.records.view import Record as Record
