"""Modules that files written for VLMEvalKit get by ``from ..smp import *`` without importing them themselves."""

from __future__ import annotations

import base64
import copy
import copy as cp
import csv
import datetime  # noqa: ICN001 - the original's name
import hashlib
import io
import json
import logging
import math
import mimetypes
import multiprocessing as mp
import os
import os.path as osp
import random
import random as rd
import re
import shutil
import string
import sys
import time
import warnings
from collections import OrderedDict, defaultdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_HEAVY = {"np": "numpy", "pd": "pandas", "Image": "PIL.Image", "requests": "requests", "tqdm": "tqdm"}
"""Libraries that are imported when the name is first asked for; those that are not installed are left out."""

__all__ = [
    "OrderedDict",
    "Path",
    "base64",
    "copy",
    "cp",
    "csv",
    "datetime",
    "defaultdict",
    "hashlib",
    "io",
    "json",
    "logging",
    "math",
    "mimetypes",
    "mp",
    "os",
    "osp",
    "random",
    "rd",
    "re",
    "shutil",
    "string",
    "sys",
    "time",
    "warnings",
]
__all__ += [name for name, library in _HEAVY.items() if find_spec(library.partition(".")[0])]


def __getattr__(name: str) -> Any:
    if name not in _HEAVY:
        raise AttributeError(name)
    module = import_module(_HEAVY[name])
    return module.tqdm if name == "tqdm" else module
