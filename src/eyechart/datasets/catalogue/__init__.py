"""The catalogue: every dataset that has a name, as data (the ``.toml`` files beside this one), and collections.

Fields of an entry, those with a star are required:

``title``*, ``kind``*, ``languages``* (the codes that its files use, or "flores"), ``splits``*, ``sources``* (see
below), ``licence``*, ``citation``*, ``metric``* (the main one), ``chance`` (what guessing gives for it), ``aliases``,
``classes``, ``classes_by_language``, ``samples`` and ``captions`` (of the test split), ``whole`` (there is no agreed
split, all of it is read), ``classnames`` and ``templates`` (keys in the prompt pack), ``subset`` (which part of
ImageNet's classes it has), ``own_classnames`` and ``own_templates`` (the texts themselves), ``domain``, ``homepage``,
``note``, ``manual`` (what to get, where from, where to put it), ``datacomp`` (its figures there), ``groups`` (which
column of metadata makes groups).

``aliases`` and ``samples`` of ours stand in ``eyechart/benchmarks.toml``, as tables of results need them, too.

A source says how the data is read: ``reader``, ``present`` (paths under the root, any of which shows that the data is
there), ``splits`` (our name to the source's), ``languages`` (if it has fewer than the entry), ``huggingface`` and
``modelscope`` (dataset repositories), ``base`` (another entry whose images are used), ``download`` (false if its
library can no longer fetch it); everything else is for the reader. Sources are tried in order: first those whose data
is there, then those that can be fetched.
"""

from eyechart.datasets.catalogue.entry import CatalogueEntry, Manual, Source
from eyechart.datasets.catalogue.load import Catalogue, load_catalogue, user_files

__all__ = ["Catalogue", "CatalogueEntry", "Manual", "Source", "load_catalogue", "user_files"]
