"""The running program of the journeys, for the faults that need one."""

from tests.journeys.conftest import server as server
from tests.journeys.conftest import start_server as start_server
