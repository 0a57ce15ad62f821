"""What gpuwright's Ansible modules and node tools share: standard library only, Python 3.6 dialect."""
