# SPDX-License-Identifier: Apache-2.0
"""Builds the package for pip (PEP 517). It needs no other package, so pip needs no network.

The wheel has the modules, and the metadata of pyproject.toml that pip needs (PEP 427, PEP 566).
"""

import base64
import hashlib
import os
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
NAME, VERSION = "europa_dataplane", "0.1.0"
MODULES = ("europa.py", "europa_packet.py")
METADATA = f"""Metadata-Version: 2.1
Name: europa-dataplane
Version: {VERSION}
Summary: Data planes for Europa's routers in Python
License: Apache-2.0
Requires-Python: >=3.9
"""
WHEEL = "Wheel-Version: 1.0\nGenerator: europa\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel; returns its name."""
    info = f"{NAME}-{VERSION}.dist-info"
    files = {f"{info}/METADATA": METADATA.encode(), f"{info}/WHEEL": WHEEL.encode()}
    for module in MODULES:
        with open(os.path.join(HERE, module), "rb") as file:
            files[module] = file.read()
    record = ""
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(content)}\n"
    files[f"{info}/RECORD"] = (record + f"{info}/RECORD,,\n").encode()
    name = f"{NAME}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
    return name


def build_sdist(sdist_directory, config_settings=None):
    """Refused: Europa's repository is the source."""
    raise NotImplementedError("the source of this package is sdk/python of Europa's repository")
