"""`hil report`: records as one page that needs nothing but a browser."""
