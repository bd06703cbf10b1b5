"""The part of the kit that works inside an image: no dependencies, any Python from 3.10 on.

Image builds copy this folder to /opt/kit/patches and run it as a program: python3 /opt/kit/patches VERB.
`kit patches` and `kit doctor` use the same modules.
"""
