"""`hil sweep`: models x boards x formats x strategies, each cell computed once, on one machine or on many."""
