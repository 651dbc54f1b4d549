"""Encoders made from Python objects of the user: built by ``python:module:factory`` or passed in memory."""
