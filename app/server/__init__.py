"""The edge: the QUIC endpoint on trio, one handler per verb, limits, settings, certificate, signals, logs."""
