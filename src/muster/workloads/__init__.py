"""Job file formats → objects. One file or folder per format; what is wrong with a file, and where."""
