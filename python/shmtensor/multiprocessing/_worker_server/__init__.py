"""The start method ``"server"``: workers are forked from a process that has imported their modules.

The program requests a worker over one socket (`client`, `server`); a memfd has the Process object (`popen`).
The forked worker takes over the environment of the program and runs the process (`bootstrap`).
"""
