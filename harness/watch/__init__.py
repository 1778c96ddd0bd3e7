"""`hil watch`: boards, locks, jobs and last records, in the terminal and as a local page."""
