"""The gpuwright test fleet: containers that look like bare RHEL 8.8 GPU servers."""
