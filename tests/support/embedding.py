"""Images of noise through the pipeline, some of them broken."""

from eyechart.inference.pipeline import Pipeline
from eyechart.io.images import ImageRef
from eyechart.io.progress import NoProgress
from eyechart.io.stopwatch import Stopwatch
from eyechart.store.vector_store import EmbeddingStore
from eyechart.types import EncodeOptions, Sample
from support.data import encoded, noise_image
from support.encoders import lazy


def samples(count, broken=()):
    """Yield keys and samples."""
    for i in range(count):
        data = b"broken" + bytes([i]) if i in broken else encoded(noise_image(i, (12, 9)), "png")
        image = ImageRef(f"{i}.png", data)
        yield image.digest(), Sample(str(i), image)


def embed(folder, encoder, listed, on_error="fail", processes=None):
    """Embed samples in batches of four; return the table of their vectors and the failures."""
    table = EmbeddingStore(folder).table("model", "image")
    line = Pipeline(lazy(encoder), EncodeOptions(4, 3, processes), on_error, Stopwatch())
    with NoProgress().step("images", len(listed)) as bar:
        failures = line.embed_images(iter(listed), table, bar)
    return table, failures
