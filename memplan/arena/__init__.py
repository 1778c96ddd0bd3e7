"""Program -> planned program: live ranges, passes that need less memory, and the arena that came out."""
