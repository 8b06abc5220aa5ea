"""Looking at what gpufeed does with a transform, a dataset or a machine: results as data, shown by the command line."""
