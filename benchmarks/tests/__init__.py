"""Tests of the driver's pure parts."""
