"""Tests of the parts of the driver that run no joins."""
