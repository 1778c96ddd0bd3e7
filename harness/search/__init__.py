"""`hil search`: a request, its data and limits, rounds of search and measurement, and the report."""
