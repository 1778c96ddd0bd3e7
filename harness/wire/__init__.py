"""The host's side of the wire: frames and messages, the link, the session, what has arrived so far."""
