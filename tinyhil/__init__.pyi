from tinyhil import errors as errors
from tinyhil.harness.python.api import Compiled as Compiled
from tinyhil.harness.python.api import Model as Model
from tinyhil.harness.python.api import compare as compare
from tinyhil.harness.python.api import load as load
from tinyhil.harness.records.view import Record as Record
