"""The Demarkus appliance: a Mark Protocol server, its store, its search, its client and commands.

Rooms, from the bottom up; a room imports only from rooms below it (tests/unit/test_layers.py holds this):
protocol, markdown, search, world, client and server, agents and commands.
"""

__version__ = "0.1.0"
