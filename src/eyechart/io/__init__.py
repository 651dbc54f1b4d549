"""Files, images, safe reading and progress: what every room stands on."""
