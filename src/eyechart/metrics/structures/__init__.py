"""Things with a structure, compared: boxes and polygons, trees and tables."""
