"""An independent observer: it shares no code with the runtime and asks it nothing.

It reads the files of a session by their documented format and what `/proc` says of the processes.
"""
