"""Execution engines. They share the store, so any engine resumes where another one stopped."""
