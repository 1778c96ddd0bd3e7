"""`hil fit`: whether a model fits each board, and what it would cost there, without building anything."""
