"""Softsign, which tinyhil does not know, in two lines of what it knows: every format and board has it at once."""

import numpy as np
from onnx import TensorProto, helper

import tinyhil
from tinyhil.frontend.rewrite import Results, Rewrite, Site
from tinyhil.frontend.rewrites import REWRITE_BY_NAME


def softsign(site: Site) -> Results:
    x = site.input(0)
    return site.last("Div", x, site.make("Add", site.make("Abs", x), site.constant("one", 1.0)))


REWRITE_BY_NAME["Softsign"] = Rewrite("Softsign", "x / (1 + |x|)", softsign)
x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8]) for name in "xy")
graph = helper.make_graph([helper.make_node("Softsign", ["x"], ["y"])], "softsign", [x], [y])
samples = np.linspace(-4, 4, 800, dtype=np.float32).reshape(100, 8)
record = tinyhil.load(helper.make_model(graph)).calibrate(samples).run("host", samples, formats="fixed16")
print(f"bit-exact {record.bit_exact}; at most {record.largest_output_error:.1e} from float")
