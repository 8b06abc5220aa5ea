"""Finding the settings of torch's and of gpufeed's loader that suit this machine: ``gpufeed tune``."""
