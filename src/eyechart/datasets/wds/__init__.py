"""Webdatasets: tars of samples, read and written."""
