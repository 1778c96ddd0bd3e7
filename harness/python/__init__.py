"""What Python calls: arrays and records (api.py), and the requests that commands make, too (calls.py)."""
