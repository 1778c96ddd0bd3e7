"""One driver per kind of link (`attached`, `simulated`, `host`); finding, claiming, flashing and healing boards."""
